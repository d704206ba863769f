import { Worker } from 'node:worker_threads';

/** The time that a thread may take to load its program, in milliseconds, on a machine that is busy. */
const START_MS = 60_000;

export interface ThreadLimits {
  /** The time for one answer, in milliseconds. */
  answerMs: number;
  /** The size of the thread's heap, in MiB. */
  heapMb: number;
}

/** The thread gave no answer: it took too long, needed too much memory, or ended. The next question starts a new one. */
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
 * Runs a program in a thread with bounds, started at the first question and kept for the next ones. The program posts `ready` when it is loaded, and
 * then one answer to each message. One question is asked at a time.
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
      return (await this.next(worker, this.limits.answerMs, () => worker.postMessage(question))) as Answer;
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
    // The thread gets none of the service's variables, no room for more than it needs, and nothing that is loaded into the service besides,
    // such as its instruments. Only a program in TypeScript needs what compiles it.
    const execArgv = this.program.pathname.endsWith('.ts') ? process.execArgv : [];
    const worker = new Worker(this.program, { env: {}, execArgv, resourceLimits: { maxOldGenerationSizeMb: this.limits.heapMb } });
    this.worker = worker;
    // A thread may also end between two questions.
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
      // No question is to blame for it.
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
