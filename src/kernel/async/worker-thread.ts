import { Worker } from 'node:worker_threads';

/** The time that a thread may take to load its program on a busy machine, in ms. */
const START_MS = 60_000;

export interface ThreadLimits {
  /** The time for one response, in ms. */
  responseMs: number;
  /** The size of the thread's heap, in MiB. */
  heapMb: number;
}

/** The thread did not respond: it took too long, needed too much memory, or ended. The next request starts a new one. */
export class ThreadFailed extends Error {
  constructor(
    readonly reason: 'late' | 'memory' | 'ended',
    options?: ErrorOptions,
  ) {
    super(`the thread gave no answer: ${reason}`, options);
    this.name = 'ThreadFailed';
  }
}

/**
 * Runs a program in a thread with bounds, started at the first request and reused for later ones. The program posts `ready` when it is
 * loaded, and then one response to each message. One request is sent at a time.
 */
export class WorkerThread<Question, Answer> {
  private starting: Promise<Worker> | null = null;
  private worker: Worker | null = null;

  constructor(
    private readonly program: URL,
    private readonly limits: ThreadLimits,
  ) {}

  /** Throws `ThreadFailed`. */
  async ask(question: Question): Promise<Answer> {
    const worker = await (this.starting ??= this.start());
    try {
      return (await this.next(worker, this.limits.responseMs, () => worker.postMessage(question))) as Answer;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    const starting = this.starting;
    this.starting = null;
    const worker = await starting?.catch(() => null);
    await worker?.terminate();
  }

  private async start(): Promise<Worker> {
    // The thread gets none of the service's variables, only the memory that it needs, and none of the modules that are preloaded into the
    // service, such as instrumentation. Only a program in TypeScript needs its compiler.
    const execArgv = this.program.pathname.endsWith('.ts') ? process.execArgv : [];
    const worker = new Worker(this.program, { env: {}, execArgv, resourceLimits: { maxOldGenerationSizeMb: this.limits.heapMb } });
    this.worker = worker;
    // A thread may also end between two requests.
    worker.on('error', () => undefined);
    worker.on('exit', () => {
      if (this.worker === worker) this.starting = null;
    });
    try {
      await this.next(worker, START_MS);
      return worker;
    } catch (cause) {
      this.starting = null;
      await worker.terminate();
      // This failure is not caused by the request.
      throw new Error('the program of a thread could not be loaded', { cause });
    }
  }

  /** Returns the thread's next message. The process may end while none is awaited. */
  private async next(worker: Worker, withinMs: number, begin?: () => void): Promise<unknown> {
    worker.ref();
    const ending = new AbortController();
    const { signal } = ending;
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const on = (name: string, heard: (value: unknown) => void) => {
          worker.once(name, heard);
          signal.addEventListener('abort', () => worker.off(name, heard));
        };
        on('message', resolve);
        on('error', (cause) =>
          reject(new ThreadFailed((cause as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'ended', { cause })),
        );
        on('exit', () => reject(new ThreadFailed('ended')));
        const timer = setTimeout(() => reject(new ThreadFailed('late')), withinMs);
        signal.addEventListener('abort', () => clearTimeout(timer));
        begin?.();
      });
    } finally {
      ending.abort();
      worker.unref();
    }
  }
}
