import { Injectable } from '@nestjs/common';

import { Clock } from '../../kernel/clock.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { LoginLimiter } from '../../http/limits/login-limiter.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { accountDecider } from './aggregate/accounts.decider.ts';
import { Credentials } from './credentials/credentials.ts';
import { normalizeEmail } from './credentials/email.ts';
import { newSession, type NewSession, sessionIdOf, Sessions } from './sessions.ts';

/** Signs account holders in and out. */
@Injectable()
export class SignIn {
  constructor(
    private readonly credentials: Credentials,
    private readonly sessions: Sessions,
    private readonly limiter: LoginLimiter,
    private readonly aggregates: Aggregates,
    private readonly clock: Clock,
  ) {}

  /**
   * Returns a new session. Throws `unauthenticated`, with the same message for an unknown address and a wrong password, and `rate_limited`.
   */
  async signIn(email: string, password: string, context: CommandContext): Promise<NewSession> {
    const address = normalizeEmail(email);
    await this.limiter.consume(context.ip ?? '', address);
    const accountId = await this.credentials.verify(address, password);
    const { state: account } = accountId === null ? { state: null } : await this.aggregates.load(`account-${accountId}`, accountDecider);
    if (accountId === null || account === null) throw new ProblemError('unauthenticated', 'The address or the password is wrong.');
    await this.limiter.succeeded(context.ip ?? '', address);
    const session = newSession(this.clock.now());
    // The event is written first, so that every session that is used is in the log.
    const by = { ...context, accountId, actor: { kind: 'session' as const, id: accountId, name: account.name } };
    const signIn = { type: 'SignIn' as const, sessionId: sessionIdOf(session.token), expiresAt: session.expiresAt.toISOString() };
    await this.aggregates.execute(`account-${accountId}`, accountDecider, signIn, by);
    await this.sessions.store(accountId, session);
    return session;
  }

  /** Ends the session; repeated calls are harmless. */
  async signOut(token: string, accountId: string, context: CommandContext): Promise<void> {
    const signOut = { type: 'SignOut' as const, sessionId: sessionIdOf(token) };
    await this.aggregates.execute(`account-${accountId}`, accountDecider, signOut, context);
    await this.sessions.end(token);
  }
}
