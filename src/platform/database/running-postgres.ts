import { setTimeout as wait } from 'node:timers/promises';

import { endPostgres, isAlive, isPostgresOn, signalQuietly } from './postgres-process.ts';

const lookEveryMs = 1_000;

export interface EmbeddedPostgresLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface Surroundings {
  /** Its data directory, by its real path. */
  cluster: string;
  logger: EmbeddedPostgresLogger | undefined;
  /** Starts it anew at the same address, and answers the process id. */
  launchAgain: () => Promise<number>;
  giveBack: () => void;
  /** It could not be started again. */
  onLost: (error: Error) => void;
}

/** A server that this process answers for: it ends with it, and is started again where it ended though nobody stopped it. */
export class RunningPostgres {
  private readonly stopping = new AbortController();
  private readonly watching: Promise<void>;
  private ending: Promise<void> | null = null;

  constructor(
    readonly url: string,
    /** Another one after each new start. */
    public pid: number,
    private readonly around: Surroundings,
  ) {
    process.once('exit', this.onExit);
    this.watching = this.watch().catch((error: Error) => around.onLost(error));
  }

  /** Idempotent. */
  stop(): Promise<void> {
    this.ending ??= this.end();
    return this.ending;
  }

  /** A process that ends without stop() takes the server with it all the same. */
  private readonly onExit = () => {
    if (isPostgresOn(this.around.cluster, this.pid)) signalQuietly(this.pid, 'SIGINT');
  };

  private async watch(): Promise<void> {
    const { signal } = this.stopping;
    const { cluster, logger, launchAgain } = this.around;
    for (; !signal.aborted; await wait(lookEveryMs, undefined, { signal, ref: false }).catch(() => undefined)) {
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

/** Asked every second: elsewhere than on Linux the dearer look at the process's command is spared. */
function isRunning(cluster: string, pid: number): boolean {
  return process.platform === 'linux' ? isPostgresOn(cluster, pid) : isAlive(pid);
}
