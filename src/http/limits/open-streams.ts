import { Injectable } from '@nestjs/common';

import { Config } from '../../kernel/config/config.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AccountCounter, sharesOf } from '../../kernel/limits/account-counter.ts';

/** The part of a call that is known of a stream. */
interface StreamContext {
  readonly caller: Caller;
  /** True once the connection has closed. */
  readonly isClosed: boolean;
  /** Runs the listener when the connection closes. */
  onClose(listener: () => void): void;
}

/** The part of the open streams that may be one account's. */
const ACCOUNT_PART = 1 / 5;

/** Bounds the number of open streams: response bodies that may never end, and WebSockets. */
@Injectable()
export class OpenStreams {
  private readonly streams: AccountCounter;

  constructor({ streamsMax }: Config) {
    this.streams = new AccountCounter(sharesOf(streamsMax, { account: ACCOUNT_PART }));
  }

  /** Counts a stream until its connection ends. Throws `rate_limited` if the account, or the process, has too many. */
  add(call: StreamContext): void {
    const share = { account: call.caller.accountId };
    const lacking = this.streams.lacking(share);
    if (lacking !== null) throw tooMany(lacking === 'account' ? 'This account has too many streams open.' : 'Too many streams are open.');
    if (!call.isClosed) call.onClose(this.streams.acquire(share));
  }
}

function tooMany(detail: string): ProblemError {
  return new ProblemError('rate_limited', detail, { retryAfterSeconds: 10 });
}
