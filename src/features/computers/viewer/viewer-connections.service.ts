/*
 * Open viewer connections as rows that every replica sees, and that outlive the process that serves them.
 *
 * It owns the table `viewer_connections`, and the renewal of the rows of this process. It does not own the events of connections
 * (`ViewerRecords`), or the recording of connections whose process died (`ViewersSaga`).
 *
 * Invariants:
 * C1. A row exists before the connection's event is in the log, and until the event of its end is. So each connection in the log without an
 *     end has a row.
 * C2. The owner renews its rows every RENEW_EVERY_MS. A row that is not renewed, or whose owner lost its lease, is dead (`IS_DEAD`).
 * C3. The time of the last input of a session is stored with the renewal, not with each input.
 */

import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { Replica } from '../../../postgres/leases/replica.ts';
import { IS_DEAD } from '../watch/viewer-watch.service.ts';
import type { ConnectionTime } from './viewers.decider.ts';

const RENEW_EVERY_MS = 2_500;
export interface ViewerConnection {
  connectionId: string;
  sessionId: string;
  computerId: string;
  accountId: string;
}

export interface StoredConnection extends ConnectionTime {
  /** The value is true if no process serves it any more. */
  isDead: boolean;
}

/** Keeps the open viewer connections as rows that every replica sees. */
@Injectable()
export class ViewerConnections implements BeforeApplicationShutdown {
  private readonly logger = new Logger('ViewerConnections');
  /** C3: the connections of this process, and whether they had input since the last renewal. */
  private readonly ownConnections = new Map<string, { sessionId: string; hadInput: boolean }>();
  private renewal: NodeJS.Timeout | null = null;

  constructor(
    private readonly database: Database,
    private readonly replica: Replica,
  ) {}

  /** C1: adds a connection of this process. */
  async add({ connectionId, sessionId, computerId, accountId }: ViewerConnection): Promise<void> {
    await this.database.query(
      `insert into viewer_connections (connection_id, session_id, computer_id, account_id, owner, connected_at, seen_at)
       values ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp())`,
      [connectionId, sessionId, computerId, accountId, this.replica.id],
    );
    this.ownConnections.set(connectionId, { sessionId, hadInput: false });
    this.renewal ??= setInterval(() => void this.renew(), RENEW_EVERY_MS).unref();
  }

  markInput(connectionId: string): void {
    const connection = this.ownConnections.get(connectionId);
    if (connection !== undefined) connection.hadInput = true;
  }

  /** C2: stops renewing a connection whose end could not be recorded, so that it soon counts as dead. */
  abandon(connectionId: string): void {
    this.ownConnections.delete(connectionId);
  }

  /** C1: removes connections whose ends are recorded. */
  async remove(connectionIds: readonly string[]): Promise<void> {
    for (const id of connectionIds) this.ownConnections.delete(id);
    await this.database.query('delete from viewer_connections where connection_id = any($1::text[])', [connectionIds]);
  }

  /** Returns the connections to the computer, by their ids. */
  async ofComputer(computerId: string): Promise<Map<string, StoredConnection>> {
    const rows = await this.database.query<{ connection_id: string; seconds: number; is_dead: boolean }>(
      `select connection_id, is_dead,
              extract(epoch from (case when is_dead then seen_at else clock_timestamp() end) - connected_at)::float8 as seconds
         from (select w.*, ${IS_DEAD} as is_dead from viewer_connections w where w.computer_id = $1) as known`,
      [computerId],
    );
    return new Map(
      rows.map(({ connection_id: connectionId, seconds, is_dead: isDead }) => [
        connectionId,
        { connectionId, seconds: Math.max(0, Math.round(seconds)), isDead },
      ]),
    );
  }

  /** Returns the computers with dead connections. */
  async abandoned(): Promise<{ computerId: string; accountId: string }[]> {
    return this.database.query<{ computerId: string; accountId: string } & Record<string, unknown>>(
      `select distinct w.computer_id as "computerId", w.account_id as "accountId" from viewer_connections w where ${IS_DEAD}`,
    );
  }

  beforeApplicationShutdown(): void {
    if (this.renewal !== null) clearInterval(this.renewal);
  }

  /** C2, C3: renews the rows of this process, and stores the last input of its sessions. */
  private async renew(): Promise<void> {
    if (this.ownConnections.size === 0) return;
    const withInput = [...this.ownConnections.values()].filter(({ hadInput }) => hadInput);
    for (const connection of withInput) connection.hadInput = false;
    try {
      await this.database.query(
        `with renewed as (
           update viewer_connections set seen_at = clock_timestamp() where connection_id = any($1::text[]))
         update viewer_browsers set last_input_at = clock_timestamp() where session_id = any($2::text[])`,
        [[...this.ownConnections.keys()], withInput.map(({ sessionId }) => sessionId)],
      );
    } catch (error) {
      for (const connection of withInput) connection.hadInput = true;
      this.logger.warn({ msg: 'the connections to desktops could not be renewed', err: error });
    }
  }
}
