import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { ViewedDesktops } from './viewed-desktops.ts';
import { ViewerBrowsers } from './viewer-browsers.service.ts';
import { ViewerConnections } from './viewer-connections.service.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import { ListSessions } from './viewer-sessions.queries.ts';
import type { SessionRow, SessionStatus } from './viewer-sessions.table.ts';
import type { ViewerLink } from './viewer-token.ts';
import type { ViewerEnd, ViewerMode } from './viewers.events.ts';

/** A caller's request for a session. */
export interface SessionRequest {
  computerId: string;
  accountId: string;
  sessionId: string;
  mode: ViewerMode;
  exclusive: boolean;
  label: string | null;
  ttlSeconds: number;
  /** The value false refuses a computer that is not awake with `computer_asleep`. */
  wake: boolean;
  context: CommandContext;
  signal: AbortSignal;
}

export interface SessionView {
  row: SessionRow;
  lastInputAt: Date | null;
}

/** Makes, lists and closes the sessions of computers. */
@Injectable()
export class ViewerSessions {
  constructor(
    private readonly desktops: ViewedDesktops,
    private readonly records: ViewerRecords,
    private readonly connections: ViewerConnections,
    private readonly browsers: ViewerBrowsers,
    private readonly queries: QueryBus,
  ) {}

  /**
   * Creates a session of the computer, which it wakes first. Throws `computer_not_found`, `human_in_control`, `rate_limited`, and what a
   * wake throws.
   */
  async create({ ttlSeconds, context, signal, wake, ...order }: SessionRequest): Promise<ViewerLink> {
    const { computerId, accountId, sessionId, mode } = order;
    return this.desktops.whileAwake({ computerId, accountId, context, signal, wake }, async () => {
      // A token holds whole seconds.
      const expiresAt = Math.floor(Date.now() / 1_000 + ttlSeconds) * 1_000;
      const command = { type: 'CreateSession' as const, ...order, expiresAt: new Date(expiresAt).toISOString() };
      const state = await this.records.execute(computerId, command, context);
      // An earlier attempt of the request may have created it.
      const made = state?.sessions.find(({ id }) => id === sessionId);
      return { sessionId, computerId, mode, expiresAt: made === undefined ? expiresAt : Date.parse(made.expiresAt) };
    });
  }

  /** Lists the sessions of the computer, the newest first. Throws `computer_not_found`. */
  async list(
    computerId: string,
    accountId: string,
    status: SessionStatus | null,
    page: { limit: number; after: readonly [string, string] | null },
  ): Promise<SessionView[]> {
    await this.desktops.requireOwned(computerId, accountId);
    const rows = await this.queries.execute(new ListSessions(computerId, status, page.limit, page.after));
    const inputs = await this.browsers.lastInputs(rows.map(({ session_id }) => session_id));
    return rows.map((row) => ({ row, lastInputAt: inputs.get(row.session_id) ?? null }));
  }

  /**
   * Closes the session, or all sessions of the computer, so that its link is invalid and its connections end. Returns how many were
   * closed. Throws `computer_not_found`, and `session_not_found` if the computer has no such session.
   */
  async close(computerId: string, accountId: string, sessionId: string | null, context: CommandContext): Promise<number> {
    await this.desktops.requireOwned(computerId, accountId);
    const state = await this.records.load(computerId);
    const isIt = ({ id }: { id: string }) => id === sessionId;
    const isKnown = sessionId === null || state?.sessions.some(isIt) || state?.ended.some(isIt);
    if (!isKnown) throw new ProblemError('session_not_found', 'The computer has no such session.');
    const meant = state?.sessions.filter((session) => sessionId === null || isIt(session)) ?? [];
    await this.end(computerId, sessionId === null ? null : [sessionId], 'closed', context);
    return meant.length;
  }

  /** Closes these sessions of the computer, or all of them (null), with the reason. */
  async end(computerId: string, sessionIds: string[] | null, reason: ViewerEnd, context: CommandContext): Promise<void> {
    const times = [...(await this.connections.ofComputer(computerId)).values()];
    await this.records.execute(computerId, { type: 'CloseSessions', sessionIds, reason, times }, context);
  }
}
