import { pause } from '../async/pause.ts';
import { endPostgres, isAlive, isPostgresOn, signalQuietly } from './postgres-process.ts';

const CHECK_EVERY_MS = 1_000;

export interface EmbeddedPostgresLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface Surroundings {
  /** The real path of the data directory. */
  cluster: string;
  logger: EmbeddedPostgresLogger | undefined;
  /** Starts the server again at the same address, and returns the process id. */
  launchAgain: () => Promise<number>;
  giveBack: () => void;
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
    private readonly around: Surroundings,
  ) {
    process.once('exit', this.onExit);
    this.watching = this.watch().catch((error: Error) => around.onLost(error));
  }

  /** Stops the server and releases the data directory. Idempotent. */
  stop(): Promise<void> {
    this.ending ??= this.end();
    return this.ending;
  }

  /** Stops the server if the process ends without stop(). */
  private readonly onExit = () => {
    if (isPostgresOn(this.around.cluster, this.pid)) signalQuietly(this.pid, 'SIGINT');
  };

  private async watch(): Promise<void> {
    const { signal } = this.stopping;
    const { cluster, logger, launchAgain } = this.around;
    for (; !signal.aborted; await pause(CHECK_EVERY_MS, signal, { ref: false })) {
      if (isRunning(cluster, this.pid)) continue;
      logger?.warn({ pid: this.pid }, 'the database server ended by itself and is started again');
      this.pid = await launchAgain();
      logger?.info({ pid: this.pid }, 'the database server runs again');
    }
  }

  private async end(): Promise<void> {
    this.stopping.abort();
    await this.watching;
    await endPostgres(this.around.cluster, this.pid);
    process.off('exit', this.onExit);
    this.around.giveBack();
  }
}

/**
 * Returns true if the server is running. This is asked every second, so the costly check of the process's command is left out on systems
 * other than Linux.
 */
function isRunning(cluster: string, pid: number): boolean {
  return process.platform === 'linux' ? isPostgresOn(cluster, pid) : isAlive(pid);
}
