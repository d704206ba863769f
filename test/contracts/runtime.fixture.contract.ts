import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { extract, pack } from 'tar-stream';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { containerSpec } from '../support/container-spec.ts';
import { pause } from '../../src/kernel/async/pause.ts';
import { probeFiles, request, startCommand, type Answer } from './runtime.probe.ts';
import type { ContainerRuntime, ExecRequest, LogCursor, LogLine } from '../../src/runtime/runtime.ts';
import type { ImageSource, ResolvedImage } from '../../src/runtime/image-source.ts';
import type { ContainerSpec, ContainerView } from '../../src/runtime/container.ts';

export interface RuntimeUnderTest {
  runtime: ContainerRuntime;
  /** Returns a 'program' image source from files written to a folder. */
  program(files: Record<string, string>, start: string[]): ImageSource;
  /** Returns a second adapter for the same engine and instance, as after a crash of the service. */
  reopen(): Promise<ContainerRuntime>;
  /** Removes everything that was created. */
  close(): Promise<void>;
}

export class RuntimeFixture {
  under: RuntimeUnderTest;
  image: ResolvedImage;
  private readonly agents = new Set<string>();
  /** The environment variables of each container that was created. */
  private readonly environments = new Map<string, Record<string, string>>();

  constructor(private readonly make: () => Promise<RuntimeUnderTest>) {}

  get runtime(): ContainerRuntime {
    return this.under.runtime;
  }

  async open(): Promise<void> {
    this.under = await this.make();
    this.image = await this.ensureImage();
  }

  async close(): Promise<void> {
    await this.under?.close();
  }

  /** Returns another instance, with its own agents. */
  another(): Promise<RuntimeUnderTest> {
    return this.make();
  }

  ensureImage(): Promise<ResolvedImage> {
    return this.runtime.ensureImage(this.under.program(probeFiles, startCommand), () => undefined, timeoutSignal(100_000));
  }

  spec(environment: Record<string, string> = {}, other: Partial<ContainerSpec> = {}): ContainerSpec {
    const agentId = other.agentId ?? randomUUID();
    this.agents.add(agentId);
    return containerSpec(this.image.image, {
      agentId,
      environment: { PORT: '8080', MOORING_VOLUME: '/data', ...environment },
      memoryBytes: 256 * 1024 * 1024,
      pids: 128,
      ...other,
    });
  }

  async created(environment?: Record<string, string>, other?: Partial<ContainerSpec>): Promise<ContainerView> {
    const spec = this.spec(environment, other);
    await this.runtime.ensureVolume(spec.agentId);
    const view = await this.runtime.create(spec);
    this.environments.set(view.handle, spec.environment);
    return view;
  }

  /** Starts a container that `created` created, with the variables of its spec. */
  start({ handle }: ContainerView, runtime = this.runtime): Promise<boolean> {
    return runtime.start(handle, this.environments.get(handle) ?? {});
  }

  /** Returns a container that is started and listens. */
  async running(environment?: Record<string, string>, other?: Partial<ContainerSpec>): Promise<ContainerView> {
    const view = await this.created(environment, other);
    await this.start(view);
    await this.answers(view);
    return view;
  }

  /** Starts a program that ends by itself, and waits for its end. */
  async ended(environment: Record<string, string>): Promise<ContainerView> {
    const view = await this.created(environment);
    await this.start(view);
    return eventually(async () => {
      const now = await this.inspect(view);
      expect(now.state).toBe('exited');
      return now;
    });
  }

  async answers(view: ContainerView, runtime = this.runtime): Promise<void> {
    await eventually(async () => expect((await this.ask(view, 'GET', '/healthz', undefined, runtime)).status).toBe(200));
  }

  async ask(view: ContainerView, method: string, path: string, body?: Buffer | string, runtime = this.runtime): Promise<Answer> {
    return request(await runtime.address(view, 8080), method, path, body);
  }

  async inspect(view: ContainerView, runtime = this.runtime): Promise<ContainerView> {
    const found = (await runtime.inspect(view.agentId)).containers.find(({ handle }) => handle === view.handle);
    if (found === undefined) throw new Error(`${view.handle} is not there`);
    return found;
  }

  async removed(): Promise<ContainerView> {
    const view = await this.created();
    await this.runtime.remove(view.handle);
    return view;
  }
}

/** Repeats the check until it passes. */
export async function eventually<T>(check: () => Promise<T>, withinMs = 90_000): Promise<T> {
  const end = performance.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
      await pause(15);
    }
  }
}

export function command(argv: string[]): ExecRequest {
  return { argv, timeoutMs: 20_000, outputLimitBytes: 262_144 };
}

export function say(word: string): ExecRequest {
  return command(['node', '-e', 'process.stdout.write(process.argv[1])', word]);
}

export function base64(bytes: string | Buffer): string {
  return Buffer.from(bytes as string).toString('base64');
}

export async function linesOf(
  runtime: ContainerRuntime,
  handle: string,
  after: LogCursor | null = null,
  signal = timeoutSignal(20_000),
): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for await (const line of runtime.logs(handle, after, signal)) lines.push(line);
  return lines;
}

export async function firstLines(runtime: ContainerRuntime, handle: string, after: LogCursor | null, count: number): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for await (const line of runtime.logs(handle, after, timeoutSignal(10_000))) if (lines.push(line) === count) break;
  return lines;
}

export function tarOf(files: Record<string, string>, mode = 0o644): NodeJS.ReadableStream {
  const tar = pack();
  for (const [name, content] of Object.entries(files)) tar.entry({ name, mode }, content);
  tar.finalize();
  return Readable.from(tar);
}

/** Reads the child's heartbeats until they no longer grow. */
export async function silent(bed: RuntimeFixture, view: ContainerView): Promise<string> {
  let last = '';
  await eventually(async () => {
    const { text: now } = await bed.ask(view, 'GET', '/file/beats');
    const same = now === last;
    last = now;
    await pause(100);
    expect(same).toBe(true);
  });
  return last;
}

interface TarEntry {
  name: string;
  type: string;
  mode: number;
  content: string;
}

export async function entriesOf(tar: NodeJS.ReadableStream): Promise<TarEntry[]> {
  const entries = [];
  for await (const entry of tar.pipe(extract())) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    const { name, type, mode } = entry.header;
    entries.push({ name, type: type ?? 'file', mode: mode ?? 0, content: Buffer.concat(chunks).toString() });
  }
  return entries;
}
