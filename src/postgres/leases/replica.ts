import { randomUUID } from 'node:crypto';

import { Injectable } from '@nestjs/common';

/** The prefix of the leases by which replicas show that they are alive. */
export const REPLICA = 'replica:';

/** The identity of this process among those that share the database. The others consider it alive while it holds the lease `lease`. */
@Injectable()
export class Replica {
  readonly id = randomUUID();
  readonly lease = `${REPLICA}${this.id}`;
  private readonly listeners: (() => void)[] = [];

  /** Calls the listener each time this process has lost its lease, so that the others may consider it dead. */
  onLost(listener: () => void): void {
    this.listeners.push(listener);
  }

  notifyLost(): void {
    for (const listener of this.listeners) listener();
  }
}
