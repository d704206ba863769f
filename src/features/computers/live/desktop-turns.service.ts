import { Injectable, Logger, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';

import { pause } from '../../../kernel/async/pause.ts';
import { Database } from '../../../postgres/database/database.ts';
import { Refusal } from '../../../kernel/errors/refusal.ts';
import { LEASE_IS_FREE } from '../../../postgres/leases/leases.ts';
import { REPLICA, Replica } from '../../../postgres/leases/replica.ts';
import type { LeftInput, Turn } from '../../../desktop/driver/turn.ts';

/** The channel on which replicas ask each other for turns, and tell that they have given one back. */
const CHANNEL = 'mooring_desktop_turns';
/** The time after which a replica that waits for a turn asks again, ms: a notification may be lost, and the owner may die. */
const ASK_AGAIN_MS = 500;

/**
 * Gives the turn for the computer $1 to the replica $2 unless a replica that lives has it. What the input was left like is that of the container
 * of generation $3.
 */
const ACQUIRE = `
  with before as (select owner from desktop_turns where computer_id = $1),
  acquired as (
    insert into desktop_turns as t (computer_id, owner, generation, is_held) values ($1, $2, $3, true)
    on conflict (computer_id) do update set owner = excluded.owner, generation = excluded.generation, is_held = true,
      x = case when t.generation = excluded.generation then t.x end,
      y = case when t.generation = excluded.generation then t.y end,
      buttons = case when t.generation = excluded.generation then t.buttons else 0 end
    where not t.is_held or t.owner = excluded.owner
       or not exists (select from consumer_leases l where l.name = '${REPLICA}' || t.owner and not ${LEASE_IS_FREE})
    returning x, y, buttons)
  select a.x, a.y, a.buttons, b.owner is not distinct from $2 as was_own from acquired a left join before b on true`;

const RELEASE = `
  with released as (
    update desktop_turns set is_held = false, x = $3, y = $4, buttons = $5 where computer_id = $1 and owner = $2 returning computer_id)
  select pg_notify('${CHANNEL}', 'free ' || computer_id) from released`;

const ASK = `select pg_notify('${CHANNEL}', 'wanted ' || $1)`;

interface OwnTurn {
  isUsed: boolean;
  isWanted: boolean;
  left: LeftInput | null;
  /** Aborts when other replicas may consider this one dead. */
  lost: AbortController;
}

/**
 * Lets one replica at a time put input into a computer. A replica keeps its turn from batch to batch until another one asks for it, so that it
 * costs a computer that only one replica uses a statement a minute. With the turn goes what the input was left like: the place of the pointer,
 * and the buttons that stay down.
 */
@Injectable()
export class DesktopTurns implements OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger('DesktopTurns');
  private readonly own = new Map<string, OwnTurn>();
  private readonly waiting = new Map<string, Set<AbortController>>();
  private listening: Promise<unknown> | null = null;

  constructor(
    private readonly database: Database,
    private readonly replica: Replica,
  ) {}

  onModuleInit(): void {
    this.replica.onLost(() => this.lose());
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all([...this.own.keys()].map((computerId) => this.release(computerId)));
  }

  /** Waits until this replica has the turn. Only one caller may have it at a time. Throws the signal's reason. */
  async acquire(computerId: string, generation: number, signal: AbortSignal): Promise<Turn> {
    this.listening ??= this.database
      .listen(CHANNEL, (payload) => this.onNotified(payload))
      .catch((error: unknown) => {
        this.listening = null;
        this.logger.warn({ msg: 'other replicas are asked for turns now and then only', err: error });
      });
    await this.listening;
    for (;;) {
      signal.throwIfAborted();
      const known = this.own.get(computerId);
      if (known !== undefined) return this.use(computerId, known, null);
      const [row] = await this.database.query<Row>(ACQUIRE, [computerId, this.replica.id, generation]);
      if (row !== undefined) {
        const own: OwnTurn = { isUsed: false, isWanted: false, left: null, lost: new AbortController() };
        this.own.set(computerId, own);
        // This replica itself knows later movements of the pointer than the row.
        return this.use(computerId, own, row.was_own ? null : leftIn(row));
      }
      await this.database.query(ASK, [computerId]);
      await this.untilFree(computerId, signal);
    }
  }

  /** Gives the turn back if this replica has it, at once or after its use. */
  async release(computerId: string): Promise<void> {
    const own = this.own.get(computerId);
    if (own === undefined) return;
    own.isWanted = true;
    if (own.isUsed) return;
    this.own.delete(computerId);
    const { pointer = null, buttons = 0 } = own.left ?? {};
    try {
      await this.database.query(RELEASE, [computerId, this.replica.id, pointer?.x ?? null, pointer?.y ?? null, buttons]);
    } catch (error) {
      // It stays this replica's, which the next one that asks for it finds out.
      if (!own.lost.signal.aborted && !this.own.has(computerId)) this.own.set(computerId, own);
      this.logger.warn({ msg: 'a turn could not be given back', computer_id: computerId, err: error });
    }
  }

  /** Forgets what the input was left like, as the computer has stopped, unless it is in use again. */
  async forget(computerId: string): Promise<void> {
    if (this.own.get(computerId)?.isUsed === true) return;
    this.own.delete(computerId);
    await this.database
      .query('delete from desktop_turns where computer_id = $1 and owner = $2', [computerId, this.replica.id])
      .catch((error: unknown) => this.logger.warn({ msg: 'a turn could not be removed', computer_id: computerId, err: error }));
  }

  private use(computerId: string, own: OwnTurn, left: LeftInput | null): Turn {
    own.isUsed = true;
    const end = async (now: LeftInput) => {
      own.isUsed = false;
      own.left = now;
      if (own.isWanted) await this.release(computerId);
    };
    return { left, lost: own.lost.signal, end };
  }

  private onNotified(payload: string): void {
    const [word, computerId = ''] = payload.split(' ');
    if (word === 'free') for (const woken of this.waiting.get(computerId) ?? []) woken.abort();
    if (word !== 'wanted') return;
    void this.release(computerId);
  }

  private async untilFree(computerId: string, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const waiting = this.waiting.get(computerId) ?? new Set();
    this.waiting.set(computerId, waiting.add(woken));
    try {
      await pause(ASK_AGAIN_MS, AbortSignal.any([signal, woken.signal]));
    } finally {
      waiting.delete(woken);
      if (waiting.size === 0) this.waiting.delete(computerId);
    }
  }

  private lose(): void {
    for (const { lost } of this.own.values())
      lost.abort(
        new Refusal('desktop_unreachable', 'This replica of the service lost its database, so that another one may act on the computer.'),
      );
    this.own.clear();
  }
}

interface Row extends Record<string, unknown> {
  x: number | null;
  y: number | null;
  buttons: number;
  was_own: boolean;
}

function leftIn({ x, y, buttons }: Row): LeftInput {
  return { pointer: x === null || y === null ? null : { x, y }, buttons };
}
