import type Dockerode from 'dockerode';
import { call } from './engine.ts';

/** The first version in which no call on a container's files can be led to the host (CVE-2026-41568, CVE-2026-42306). */
export const LOWEST_SAFE_VERSION = '29.5.1';
/** The time for which the engine's answer is used, ms. */
const KEPT_MS = 5 * 60_000;

export type Safety = 'safe' | 'below' | 'unknown';

interface Answer {
  Version?: string;
  Components?: { Name?: string }[] | null;
}

/** Compares the version that an engine tells of itself. That of another engine than Docker's says nothing. */
export function safetyOf({ Version = '', Components }: Answer, lowest = LOWEST_SAFE_VERSION): Safety {
  if (Components?.some(({ Name }) => /podman/i.test(Name ?? ''))) return 'unknown';
  const found = partsOf(Version);
  const wanted = partsOf(lowest);
  if (found === null || wanted === null) return 'unknown';
  const difference = found.numbers.map((number, at) => number - (wanted.numbers[at] ?? 0)).find((each) => each !== 0) ?? 0;
  if (difference !== 0) return difference > 0 ? 'safe' : 'below';
  return found.isPreview ? 'below' : 'safe';
}

/** Parses versions such as `20.10.24+dfsg1`, `29.5.1-rc.1`, `18.09.1-ce`. What a distribution adds makes no difference. */
function partsOf(version: string): { numbers: number[]; isPreview: boolean } | null {
  const [, major, minor, patch, suffix = ''] = /^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})((?:[-+~].*)?)$/s.exec(version) ?? [];
  if (major === undefined) return null;
  return { numbers: [major, minor, patch].map(Number), isPreview: /^[-~](alpha|beta|dev|pre|rc|tp)/i.test(suffix) };
}

/** Knows whether the engine has faults that an upgrade mends. */
export class EngineVersion {
  private latest: { at: number; warning: Promise<string | null> } | null = null;
  private told = '';

  constructor(
    private readonly docker: Dockerode,
    /** Receives the version of an engine with known faults, once for each version. */
    private readonly onFaults: (version: string) => void,
  ) {}

  /** Returns a sentence for the operator; null if there is nothing to say. Throws `RuntimeUnavailable`. The sentence tells strangers no version. */
  warning(): Promise<string | null> {
    if (this.latest === null || performance.now() - this.latest.at > KEPT_MS) this.check();
    return this.latest?.warning ?? Promise.resolve(null);
  }

  /** Asks the engine anew, which may have been upgraded. */
  check(): void {
    const latest = { at: performance.now(), warning: this.ask() };
    this.latest = latest;
    // A failure is shared only by the callers that already wait for it.
    latest.warning.catch(() => {
      if (this.latest === latest) this.latest = null;
    });
  }

  private async ask(): Promise<string | null> {
    const answer = (await call(null, () => this.docker.version())) as Answer;
    if (safetyOf(answer) !== 'below') return null;
    const { Version = '' } = answer;
    if (this.told !== Version) this.onFaults(Version);
    this.told = Version;
    return `the Docker Engine is older than ${LOWEST_SAFE_VERSION}, which mends faults in its calls on the files of containers; upgrade it`;
  }
}
