import { Injectable } from '@nestjs/common';

import { LoginLimiter } from '../platform/http/rate-limit.ts';
import { Refusal } from '../platform/refusal.ts';
import { Credentials, normalizeEmail } from './credentials.ts';
import { type NewSession, Sessions } from './sessions.ts';

/** Passwords in, sessions out. */
@Injectable()
export class SignIn {
  constructor(
    private readonly credentials: Credentials,
    private readonly sessions: Sessions,
    private readonly limiter: LoginLimiter,
  ) {}

  /** A new session. Throws `unauthenticated`, in the same words for an unknown address and a wrong password, and `rate_limited`. */
  async signIn(email: string, password: string, address: string): Promise<NewSession> {
    const account = normalizeEmail(email);
    await this.limiter.take(address, account);
    const accountId = await this.credentials.verify(account, password);
    if (accountId === null) throw new Refusal('unauthenticated', 'The address or the password is wrong.');
    return this.sessions.open(accountId);
  }

  signOut(token: string): Promise<void> {
    return this.sessions.end(token);
  }
}
