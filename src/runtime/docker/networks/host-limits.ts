import { readFile } from 'node:fs/promises';
import { isBridgeHere } from './links.ts';

const LOW = 'limits of the kernel that agents share are low on the engine’s machine (%s): raise them';
const HIGH = 'a computer can take more of the kernel’s memory than its own (%s): lower it';
const UNSANDBOXED = 'browsers of computers may run without their sandbox, since the kernel restricts user namespaces (%s)';

/** A kernel setting of the engine's machine, and the warning about values that let one agent harm all others, or itself. */
interface Limit {
  name: string;
  isWrong: (value: number) => boolean;
  sentence: string;
}

/** The minimum of a limit that all agents share is a value that a single agent can't soon use up. */
const limits: readonly Limit[] = [
  { name: 'net.ipv4.neigh.default.gc_thresh3', isWrong: (value) => value < 16_384, sentence: LOW },
  { name: 'kernel.pty.max', isWrong: (value) => value < 65_536, sentence: LOW },
  // Each computer has its own count, and the kernel allocates some 10 KB for each entry, which no limit accounts for.
  { name: 'user.max_user_namespaces', isWrong: (value) => value > 16_384, sentence: HIGH },
  { name: 'user.max_user_namespaces', isWrong: (value) => value === 0, sentence: UNSANDBOXED },
  { name: 'kernel.unprivileged_userns_clone', isWrong: (value) => value === 0, sentence: UNSANDBOXED },
  { name: 'kernel.apparmor_restrict_unprivileged_userns', isWrong: (value) => value === 1, sentence: UNSANDBOXED },
];
const names = [...new Set(limits.map(({ name }) => name))];
const READ_AGAIN_MS = 10 * 60_000;

/** Finds out which kernel limits of the engine's machine should have other values. */
export class HostLimits {
  private readAt = -Infinity;
  private lastWarning: string | null = null;

  constructor(
    /** Returns the content of a file of the engine's machine; null if there is none. */
    private readonly read: (file: string) => Promise<string | null>,
    /** Called with the new warning whenever it changes. */
    private readonly onChange: (warning: string | null) => void,
  ) {}

  /** Returns a sentence that is safe to show to strangers; null if no problem is known. */
  get warning(): string | null {
    return this.lastWarning;
  }

  async refresh(now = performance.now()): Promise<void> {
    if (now - this.readAt < READ_AGAIN_MS) return;
    this.readAt = now;
    const texts = new Map(await Promise.all(names.map(async (name) => [name, await this.read(fileOf(name))] as const)));
    const wrong = limits.filter(({ name, isWrong }) => /^\d+\s*$/.test(texts.get(name) ?? '') && isWrong(Number(texts.get(name))));
    const warning = warningOf(wrong);
    if (warning !== this.lastWarning) this.onChange(warning);
    this.lastWarning = warning;
  }
}

const fileOf = (name: string): string => `/proc/sys/${name.replaceAll('.', '/')}`;

function warningOf(wrong: readonly Limit[]): string | null {
  const sentences = [...new Set(wrong.map(({ sentence }) => sentence))];
  const namesWith = (sentence: string) => wrong.filter((limit) => limit.sentence === sentence).map(({ name }) => name);
  return sentences.map((sentence) => sentence.replace('%s', namesWith(sentence).join(', '))).join('; ') || null;
}

/**
 * Returns the content of a file of the engine's machine; null if it is unknown. An engine behind a socket file may be in a virtual machine,
 * so this machine's file is used only if this machine has one of the engine's bridges. A container has no neighbour table of its own to
 * configure, and lacks the file. In both cases `readThere` reads it through the engine.
 */
export async function readOfEngine(
  file: string,
  bridges: readonly string[],
  readThere: (file: string) => Promise<string>,
): Promise<string | null> {
  const areHere = await Promise.all(bridges.map(isBridgeHere));
  const here = areHere.includes(true) ? await readFile(file, 'utf8').catch(() => null) : null;
  return here ?? readThere(file).catch(() => null);
}
