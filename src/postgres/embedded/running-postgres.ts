import { pause } from '../../kernel/async/pause.ts';
import { retry } from '../../kernel/async/retry.ts';
import { endPostgres, isAlive, isPostgresOn, signalQuietly } from './postgres-process.ts';

const CHECK_EVERY_MS = 1_000;
/**
 * The attempts to start a server again: for some ten seconds, since processes of the killed one may still use its memory, or kill the new
 * one too.
 */
const LAUNCH_AGAIN = { firstMs: 100, lastMs: 2_000, attempts: 10 };

export interface EmbeddedPostgresLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface ServerParts {
  /** The real path of the data directory. */
  cluster: string;
  logger: EmbeddedPostgresLogger | undefined;
  /** Starts the server again at the same address, and returns the process id. */
  launchAgain: () => Promise<number>;
  releaseDataDir: () => void;
  /** Called if the server could not be started again. */
  onLost: (error: Error) => void;
}

/** A server that this process owns: it ends with the process, and is started again if it ends by itself. */
export class RunningPostgres {
  private readonly stopping = new AbortController();
  private readonly watching: Promise<void>;
  private ending: Promise<void> | null = null;

  constructor(
    readonly url: string,
    /** The process id, which changes with each new start. */
    public pid: number,
    private readonly parts: ServerParts,
  ) {
    process.once('exit', this.onExit);
    this.watching = this.watch().catch((error: Error) => {
      if (!this.stopping.signal.aborted) parts.onLost(error);
    });
  }

  /** Stops the server and releases the data directory. Idempotent. */
  stop(): Promise<void> {
    this.ending ??= this.end();
    return this.ending;
  }

  /** Stops the server if the process ends without stop(). */
  private readonly onExit = () => {
    if (isPostgresOn(this.parts.cluster, this.pid)) signalQuietly(this.pid, 'SIGINT');
  };

  private async watch(): Promise<void> {
    const { signal } = this.stopping;
    const { cluster, logger, launchAgain } = this.parts;
    for (; !signal.aborted; await pause(CHECK_EVERY_MS, signal, { ref: false })) {
      if (isRunning(cluster, this.pid)) continue;
      logger?.warn({ pid: this.pid }, 'the database server ended by itself and is started again');
      const onRetry = (error: unknown, retryInMs: number) =>
        logger?.warn({ err: error, retryInMs }, 'the database server did not start, and is started again');
      this.pid = await retry(launchAgain, { ...LAUNCH_AGAIN, signal, onRetry });
      logger?.info({ pid: this.pid }, 'the database server runs again');
    }
  }

  private async end(): Promise<void> {
    this.stopping.abort();
    await this.watching;
    await endPostgres(this.parts.cluster, this.pid);
    process.off('exit', this.onExit);
    this.parts.releaseDataDir();
  }
}

/**
 * Returns whether the server is running. This is checked every second, so the costly check of the process's command is omitted on systems
 * other than Linux.
 */
function isRunning(cluster: string, pid: number): boolean {
  return process.platform === 'linux' ? isPostgresOn(cluster, pid) : isAlive(pid);
}
