import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { oneFile } from './one-file.ts';
import type { ServiceOptions, StartedService } from './started-service.ts';
import { until, type Wait } from './until.ts';

/** The longest time, in ms, between the moment at which a step is visible from outside and the kill that was ordered after it. */
const LAST_KILL_MS = 500;

/** The moment of a kill: right after the n-th step of a saga that follows the order, of one key if it is given. */
export interface KillOrder {
  after: number;
  saga: string;
  key?: string | null;
}

/** Returns the options of a service that obeys orders to kill itself, and starts again quickly. */
export async function killable(): Promise<Required<Pick<ServiceOptions, 'entry' | 'nodeOptions'>>> {
  return { entry: await oneFile(), nodeOptions: ['--import', resolve(import.meta.dirname, 'crash-at.mjs')] };
}

/** Kills a started service, at once or right after a step of a saga (crash-at.mjs), starts it again, and counts the kills. */
export class Kills {
  count = 0;
  private orders = 0;
  private readonly orderFile: string;

  constructor(readonly service: StartedService) {
    this.orderFile = join(service.dataDir, 'crash-order');
  }

  /** Orders the service to kill itself. Steps are counted anew with every order. */
  async order(order: KillOrder): Promise<void> {
    this.orders += 1;
    await writeFile(this.orderFile, JSON.stringify({ ...order, nonce: this.orders }));
  }

  cancel(): Promise<void> {
    return writeFile(this.orderFile, '');
  }

  /** Waits until the service dies as ordered or `isOver` returns true, and cancels the order. Returns whether the service died. */
  async dies(isOver: () => Promise<boolean>, wait?: Wait): Promise<boolean> {
    const outcome = await until(
      'the service dies, or what it works on is over',
      async () => {
        if (!this.service.running) return 'died';
        return (await isOver().catch(() => false)) ? 'over' : undefined;
      },
      wait,
    );
    const died = outcome === 'died' || (await this.diesOfLastStep());
    await this.cancel();
    if (died) this.count += 1;
    return died;
  }

  /** Same as `dies`, and starts the service again if it died. */
  async diesAndComesBack(isOver: () => Promise<boolean>): Promise<boolean> {
    const died = await this.dies(isOver);
    if (died) await this.service.start();
    return died;
  }

  /** Kills the service now, and starts it again after `meanwhile`. */
  async now(meanwhile?: () => unknown): Promise<void> {
    await this.service.kill();
    this.count += 1;
    await meanwhile?.();
    await this.service.start();
  }

  /**
   * The last step may kill just after its outcome was seen, and even while the order is being cancelled. A step reads its order and kills
   * within one turn of the event loop, so a service that answers after the order was cancelled outlives it.
   */
  private async diesOfLastStep(): Promise<boolean> {
    if (await this.service.endsWithin(LAST_KILL_MS)) return true;
    await this.cancel();
    const answers = await this.service.call('GET', '/health').then(
      ({ status }) => status === 200,
      () => false,
    );
    if (!answers) await this.service.ended();
    return !answers;
  }
}
