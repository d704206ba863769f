/*
 * Lets one replica at a time put input (keys and pointer) into a computer's desktop.
 *
 * It owns the table `desktop_turns`, the turns that this replica holds, and the notifications with which replicas ask each other for a
 * turn. It does not own the order of batches within this replica (`BatchQueue`).
 *
 * Invariants:
 * T1. At most one live replica holds the turn of a computer. A turn of a dead replica (its lease has expired) can be acquired by any other.
 * T2. A replica keeps its turn from batch to batch until another replica asks for it, so that a computer used through one replica costs no
 *     statement for each batch. It releases a wanted turn after the batch that runs.
 * T3. The state of the input (place of the pointer, buttons that stay pressed) goes with the turn, and only within one container
 *     generation.
 * T4. When this replica loses its database session, others may consider it dead, so the batches that run under its turns are aborted.
 * T5. A lost notification delays a waiting replica by at most ASK_AGAIN_MS.
 */

import { Injectable, Logger, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';

import { pause } from '../../../kernel/async/pause.ts';
import { Database } from '../../../postgres/database/database.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { LEASE_IS_FREE } from '../../../postgres/leases/leases.ts';
import { REPLICA, Replica } from '../../../postgres/leases/replica.ts';
import type { LeftInput, Turn } from '../../../desktop/driver/turn.ts';

/** The channel on which replicas ask for turns (`wanted`) and announce that they have released one (`free`). */
const CHANNEL = 'mooring_desktop_turns';
/** T5: a replica that waits for a turn asks again after this time, in ms. */
const ASK_AGAIN_MS = 500;

/** T1: gives the turn of the computer $1 to the replica $2, unless a live replica has it. T3: $3 is the generation of the container. */
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
  leftInput: LeftInput | null;
  /** T4: aborts when other replicas may consider this one dead. */
  lost: AbortController;
}

/**
 * Lets one replica at a time put input into a computer. A replica keeps its turn from batch to batch until another one asks for it. The place
 * of the pointer, and the buttons that stay pressed, go with the turn.
 */
@Injectable()
export class DesktopTurns implements OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger('DesktopTurns');
  private readonly ownTurns = new Map<string, OwnTurn>();
  private readonly waiting = new Map<string, Set<AbortController>>();
  private listening: Promise<unknown> | null = null;

  constructor(
    private readonly database: Database,
    private readonly replica: Replica,
  ) {}

  onModuleInit(): void {
    this.replica.onLost(() => this.onSessionLost());
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all([...this.ownTurns.keys()].map((computerId) => this.release(computerId)));
  }

  /** Waits until this replica has the turn. Only one caller may have it at a time. Throws the signal's reason. */
  async acquire(computerId: string, generation: number, signal: AbortSignal): Promise<Turn> {
    this.listening ??= this.database
      .listen(CHANNEL, (payload) => this.onNotified(payload))
      .catch((error: unknown) => {
        this.listening = null;
        this.logger.warn({ msg: 'notifications about desktop turns are not received; turns of other replicas are polled', err: error });
      });
    await this.listening;
    for (;;) {
      signal.throwIfAborted();
      const known = this.ownTurns.get(computerId);
      if (known !== undefined) return this.use(computerId, known, null);
      const [row] = await this.database.query<Row>(ACQUIRE, [computerId, this.replica.id, generation]);
      if (row !== undefined) {
        const own: OwnTurn = { isUsed: false, isWanted: false, leftInput: null, lost: new AbortController() };
        this.ownTurns.set(computerId, own);
        // If the turn was this replica's own, the row is older than what this replica knows.
        return this.use(computerId, own, row.was_own ? null : toLeftInput(row));
      }
      await this.database.query(ASK, [computerId]);
      await this.waitUntilFree(computerId, signal);
    }
  }

  /** T2: releases the turn if this replica has it, at once or after the batch that runs. */
  async release(computerId: string): Promise<void> {
    const own = this.ownTurns.get(computerId);
    if (own === undefined) return;
    own.isWanted = true;
    if (own.isUsed) return;
    this.ownTurns.delete(computerId);
    const { pointer = null, buttons = 0 } = own.leftInput ?? {};
    try {
      await this.database.query(RELEASE, [computerId, this.replica.id, pointer?.x ?? null, pointer?.y ?? null, buttons]);
    } catch (error) {
      // The turn stays with this replica, which tries again when another replica asks for it.
      if (!own.lost.signal.aborted && !this.ownTurns.has(computerId)) this.ownTurns.set(computerId, own);
      this.logger.warn({ msg: 'a desktop turn could not be released', computer_id: computerId, err: error });
    }
  }

  /** T3: deletes the state of the input after the computer has stopped, unless the turn is in use again. */
  async deleteInput(computerId: string): Promise<void> {
    if (this.ownTurns.get(computerId)?.isUsed === true) return;
    this.ownTurns.delete(computerId);
    await this.database
      .query('delete from desktop_turns where computer_id = $1 and owner = $2', [computerId, this.replica.id])
      .catch((error: unknown) => this.logger.warn({ msg: 'a desktop turn could not be deleted', computer_id: computerId, err: error }));
  }

  private use(computerId: string, own: OwnTurn, leftInput: LeftInput | null): Turn {
    own.isUsed = true;
    const end = async (now: LeftInput) => {
      own.isUsed = false;
      own.leftInput = now;
      if (own.isWanted) await this.release(computerId);
    };
    return { leftInput, lost: own.lost.signal, end };
  }

  private onNotified(payload: string): void {
    const [word, computerId = ''] = payload.split(' ');
    if (word === 'free') for (const woken of this.waiting.get(computerId) ?? []) woken.abort();
    if (word !== 'wanted') return;
    void this.release(computerId);
  }

  private async waitUntilFree(computerId: string, signal: AbortSignal): Promise<void> {
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

  /** T4 */
  private onSessionLost(): void {
    for (const { lost } of this.ownTurns.values())
      lost.abort(
        new ProblemError(
          'desktop_unreachable',
          'This replica of the service lost its database session, so another replica may act on the computer now.',
        ),
      );
    this.ownTurns.clear();
  }
}

interface Row extends Record<string, unknown> {
  x: number | null;
  y: number | null;
  buttons: number;
  was_own: boolean;
}

function toLeftInput({ x, y, buttons }: Row): LeftInput {
  return { pointer: x === null || y === null ? null : { x, y }, buttons };
}
