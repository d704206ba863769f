import { Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import type { MooringRequest } from '../requests/request.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { AccountPositions } from '../../eventsourcing/log/account-positions.ts';
import { START, type Position } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../eventsourcing/projections/projection.ts';
import { POSITION_HEADER } from './position-header.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

/**
 * Reports a write's position, and delays a read until its read models contain every event of the account that was in the log when the
 * request arrived, whichever replica stored it. So a response is never older than an earlier one.
 */
@Injectable()
export class Positions {
  constructor(
    private readonly readModels: ReadModels,
    private readonly positions: AccountPositions,
    private readonly follower: LogFollower,
  ) {}

  /**
   * Returns whether everything was received that was in the log when the request arrived. If the newest events do not arrive in time,
   * `waitForReadModels` refuses reads.
   */
  async catchUpToHead(request: MooringRequest): Promise<boolean> {
    request.caughtUp = this.follower.catchUpToHead();
    const head = await request.caughtUp.catch(() => null);
    if (head !== null) request.seenUpTo = head;
    return head !== null;
  }

  /** Resolves once the read models contain everything that the request has to see. Throws `invalid_request`, `read_model_behind`. */
  async waitForReadModels(request: FastifyRequest & MooringRequest, projections: readonly string[]): Promise<void> {
    const asked = requestedPosition(request);
    if (projections.length === 0) return;
    // If the store does not respond this resolves, and the read shows what was received so far. It throws if the newest events do not
    // arrive in time.
    await request.caughtUp;
    await Promise.all(projections.map((projection) => this.reached(projection, asked, request.caller)));
  }

  /** Sets the response's header to the position of the request's own writes. */
  setPositionHeader(request: MooringRequest, reply: FastifyReply): void {
    // The sender of a webhook need not know how much happens in the installation.
    const position = request.caller?.kind === 'webhook' ? undefined : request.commandContext?.writtenUpTo;
    if (position !== undefined && !reply.raw.headersSent) void reply.header(POSITION_HEADER, position);
  }

  private async reached(projection: string, asked: Position, caller: Caller | undefined): Promise<void> {
    const filter = this.readModels.filterOf(projection);
    // An administrator sees every account.
    const { last, written } = caller ? this.positions.of(caller.role === 'admin' ? null : caller.accountId, filter) : NOTHING;
    const needed = written > asked ? written : asked;
    if (needed > START) await this.readModels.waitFor(projection, needed);
    // The caller did not write these events, so a read model that stopped or is far behind still serves.
    if (last > needed) await this.readModels.waitIfRunning(projection, last);
    if (needed === START) await this.readModels.waitUntilFilled(projection);
  }
}

const NOTHING = { last: START, written: START };

/** Returns the position in the header. Throws `invalid_request` if it is not a position. */
function requestedPosition({ headers }: FastifyRequest): Position {
  const asked = headers['x-min-event-position'];
  if (asked === undefined) return START;
  if (typeof asked === 'string' && /^\d{20}$/.test(asked)) return asked;
  throw new ProblemError('invalid_request', 'X-Min-Event-Position must be a position that X-Event-Position gave.', {
    errors: [{ field: 'X-Min-Event-Position', message: 'is not a position' }],
  });
}
