import { StringDecoder } from 'node:string_decoder';

import { FailureReason } from '../../build-failure.ts';
import { OutputLines } from '../../output-lines.ts';

/** A longer line of BuildKit is skipped. A step's output arrives in smaller pieces. */
const LINE_CHARACTERS_MAX = 4 * 1024 * 1024;
/** The most steps of one build that are tracked. The output of further ones is shown without their names. */
const STEPS_MAX = 2_000;
const ERROR_CHARACTERS_MAX = 2_000;
const NAME_CHARACTERS_MAX = 300;

interface Vertex {
  digest?: string;
  name?: string;
  started?: string;
  completed?: string;
  cached?: boolean;
  error?: string;
}

interface Status {
  vertexes?: Vertex[] | null;
  logs?: { vertex?: string; data?: string }[] | null;
}

interface Step {
  name: string;
  isLogged: boolean;
  lines: OutputLines;
  reason: FailureReason;
}

/** Converts BuildKit's progress of one build, JSON lines, into lines for people, and remembers why it failed. */
export class BuildProgress {
  private readonly decoder = new StringDecoder('utf8');
  private readonly steps = new Map<string, Step>();
  private rest = '';
  private isSkipping = false;
  private failed: { name: string; error: string; reason: string } | null = null;
  private lastError = '';

  constructor(private readonly log: (line: string) => void) {}

  push(bytes: Uint8Array): void {
    const lines = (this.rest + this.decoder.write(Buffer.from(bytes))).split('\n');
    this.rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!this.isSkipping) this.pushLine(line);
      this.isSkipping = false;
    }
    if (this.rest.length <= LINE_CHARACTERS_MAX) return;
    this.rest = '';
    this.isSkipping = true;
  }

  /** Passes on the last line if it has no line end. */
  end(): void {
    if (!this.isSkipping && this.rest !== '') this.pushLine(this.rest);
    this.rest = '';
    for (const { lines } of this.steps.values()) lines.end();
  }

  /** Returns the step that failed, with its first error; null if none did. */
  get failure(): { name: string; error: string; reason: string } | null {
    return this.failed;
  }

  /** Returns the last error that BuildKit gave for the build as a whole. */
  get error(): string {
    return this.lastError;
  }

  private pushLine(line: string): void {
    const status = statusOf(line);
    if (status === null) {
      const error = /^error: (?:failed to build: |failed to solve: )*(.*)$/is.exec(line)?.[1];
      if (error !== undefined) this.lastError = error.slice(0, ERROR_CHARACTERS_MAX);
      return;
    }
    for (const vertex of list(status.vertexes)) this.applyVertex(vertex);
    for (const { vertex, data } of list(status.logs))
      if (typeof data === 'string') this.stepOf(vertex).lines.push(Buffer.from(data, 'base64'));
  }

  private applyVertex({ digest, name, started, completed, cached, error }: Vertex): void {
    const step = this.stepOf(digest);
    if (typeof name === 'string') step.name = name.replaceAll(/\s+/g, ' ').slice(0, NAME_CHARACTERS_MAX);
    const isOurs = /^\[(?!internal\]|context )/.test(step.name);
    if (isOurs && !step.isLogged && (started !== undefined || cached === true)) {
      if (cached !== true && completed === undefined) this.log(step.name);
      else this.log(cached === true ? `Using cache: ${step.name}` : step.name);
      step.isLogged = true;
    }
    if (completed !== undefined) step.lines.end();
    if (typeof error === 'string' && error !== '' && !/^(context canceled|rpc error: code = Canceled)/i.test(error))
      this.failed ??= { name: step.name, error: error.slice(0, ERROR_CHARACTERS_MAX), reason: step.reason.text };
  }

  private stepOf(digest: string | undefined): Step {
    const key = digest !== undefined && (this.steps.has(digest) || this.steps.size < STEPS_MAX) ? digest : '';
    const found = this.steps.get(key);
    if (found !== undefined) return found;
    const step: Step = {
      name: '',
      isLogged: false,
      lines: new OutputLines((line) => this.logLine(step, line)),
      reason: new FailureReason(),
    };
    this.steps.set(key, step);
    return step;
  }

  private logLine(step: Step, line: string): void {
    if (line === '') return;
    step.reason.push(line);
    this.log(line);
  }
}

const list = <T>(value: T[] | null | undefined): T[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'object' && each !== null) : [];

function statusOf(line: string): Status | null {
  if (!line.startsWith('{')) return null;
  try {
    return JSON.parse(line) as Status;
  } catch {
    return null;
  }
}

/** BuildKit's texts for what it refuses, and the sentences for the owner of the Dockerfile. */
const refusals: [RegExp, (found: RegExpExecArray) => string][] = [
  [
    /source "?([^"\s]+)"? (?:is )?(?:denied|not allowed) by (?:source )?policy|source (\S+) not allowed by policy/i,
    (found) =>
      `The build takes ${JSON.stringify((found[1] ?? found[2] ?? '').slice(0, 200))}, which is neither a file of the repository nor an image that its Dockerfile names plainly, and is refused.`,
  ],
  [
    /network\.host is not allowed|security\.insecure is not allowed/i,
    () => 'The Dockerfile asks for rights on the host (RUN --network=host or --security=insecure), which are refused.',
  ],
  [
    /^\[[^\]]*\] RUN .*--network=none[^]*runc run failed/,
    () => 'The Dockerfile sets the network of a step (RUN --network), which is refused.',
  ],
];

/**
 * Returns the sentence for the owner of a Dockerfile whose build failed. The line is not cut, because half of a secret would not be
 * recognised later.
 */
export function buildFailure({ failure, error }: Pick<BuildProgress, 'failure' | 'error'>): string {
  const said = failure?.error ?? error;
  const all = [failure?.name, said, error, failure?.reason].join('\n');
  for (const [pattern, sentence] of refusals) {
    const found = pattern.exec(all);
    if (found !== null) return sentence(found);
  }
  const code = /did not complete successfully: exit code: (\d+)/.exec(said)?.[1];
  if (failure !== null && code !== undefined) {
    const killed = code === '137' ? ', which means that it was killed, most often for a lack of memory' : '';
    return `${failure.name} failed with exit code ${code}${killed}${failure.reason === '' ? '.' : `: ${failure.reason.trim()}`}`;
  }
  return said === '' ? 'The build failed without a reason.' : `The build failed: ${said}`;
}
