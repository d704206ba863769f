import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { TokenBuckets } from '../../kernel/limits/token-bucket.ts';
import { pause } from '../../kernel/async/pause.ts';
import { Config } from '../../kernel/config/config.ts';
import { type MooringRequest, shareOrNetworkOf } from '../requests/request.ts';
import { payloadSize } from './payload-size.ts';

const MIB = 1_048_576;
/** The large reads that run at once, of which an account may have a quarter: each may take several times the bytes of its response for a moment. */
const AT_ONCE = sharesOf(16);
/** The longest wait of a read for its turn, in ms. */
const PATIENCE_MS = 30_000;
/** The seconds for which an account may read nothing and then read so much more at once. */
const SAVED_SECONDS = 4;

type Request = FastifyRequest & MooringRequest;

/**
 * Keeps reads with large responses from blocking other requests, however many arrive at once. Of an account only some run at a time, and
 * so many bytes are sent in a second; the others wait in their connections.
 */
@Injectable()
export class LargeReads implements OnModuleInit {
  /** A test sets a shorter time. */
  patienceMs = PATIENCE_MS;
  private readonly places = new FairLimiter(AT_ONCE);
  /** The bytes that may be sent to each account. */
  private readonly bytes: TokenBuckets;
  private readonly reads = new WeakSet<FastifyRequest>();

  constructor(
    private readonly host: HttpAdapterHost,
    { largeReadsMbPerSecond }: Config,
  ) {
    const perSecond = largeReadsMbPerSecond * MIB;
    this.bytes = new TokenBuckets({ perSecond, savedMax: perSecond * SAVED_SECONDS });
  }

  onModuleInit(): void {
    this.host.httpAdapter.getInstance<FastifyInstance>().addHook('onSend', (request: Request, _reply, payload, done) => {
      if (this.reads.has(request)) this.bytes.spend(shareOrNetworkOf(request), payloadSize(payload), performance.now());
      done(null, payload);
    });
  }

  /** Runs the work, which makes the response, as soon as it is its account's turn. Rejects with the signal's reason if it aborts before. */
  async run<T>(request: Request, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const account = shareOrNetworkOf(request);
    this.reads.add(request);
    for (;;) {
      // A read that waits for its bytes holds no place: a few accounts that owe much would hold all of them.
      const owedMs = this.owedMs(account);
      if (owedMs > 0) await pause(owedMs, signal);
      const turn = async () => (this.owedMs(account) > 0 ? null : { result: await work() });
      const done = await this.places.run({ account }, signal, turn);
      if (done !== null) return done.result;
    }
  }

  /** Returns the time until the account has earned what it was sent, in ms. */
  private owedMs(account: string): number {
    return this.bytes.spend(account, 0, performance.now());
  }
}
