import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Histogram } from 'prom-client';

import { TokenBuckets, type TokenRate } from '../../kernel/limits/token-bucket.ts';
import { pause } from '../../kernel/async/pause.ts';
import { Metrics } from '../../kernel/observability/metrics.ts';
import { type MooringRequest, shareOrNetworkOf } from '../requests/request.ts';

/**
 * The statuses of refusals that say that the request itself is wrong. Others, such as 404 and 409, tell a known caller the state of something. To
 * one that is not known, a 404 is one more wrong request: it may ask for any number of ids that nothing has.
 */
const PACED = new Set([400, 401, 403, 413, 415, 429]);
/** The refusals that one process sends to one account, or to one network of strangers, in a second. */
const PER_SECOND = 20;
/** The longest time for which a refusal is held back, in seconds. */
const HELD_SECONDS = 5;
const BUCKETS_SECONDS = [0.1, 0.5, 1, 2.5, 5];

type Request = FastifyRequest & MooringRequest;

/**
 * Holds back the refusals of a caller that gets more of them in a second than its share. A caller that sends the next wrong request as soon
 * as it has an answer would else take all of the process's time. No other answer waits.
 */
@Injectable()
export class PacedRefusals implements OnModuleInit {
  /** A test sets another rate. */
  readonly rate = refusalRate(PER_SECOND);
  private readonly refusals = new TokenBuckets(this.rate);
  private readonly waits: Histogram;

  constructor(
    private readonly host: HttpAdapterHost,
    metrics: Metrics,
  ) {
    this.waits = metrics.histogram('mooring_http_refusal_wait_seconds', 'Time for which a refusal was held back.', [], BUCKETS_SECONDS);
  }

  onModuleInit(): void {
    const server = this.host.httpAdapter.getInstance<FastifyInstance>();
    server.addHook('onSend', (request: Request, reply, payload, done) => {
      const waitMs = isPaced(request, reply) ? this.spend(request) : 0;
      if (waitMs === 0) done(null, payload);
      else void this.holdBack(request, reply, waitMs).then(() => done(null, payload));
    });
  }

  /** Takes one refusal from the caller's share. Returns the time for which it is held back, in ms. */
  private spend(request: Request): number {
    return this.refusals.spend(shareOrNetworkOf(request), 1, performance.now());
  }

  /** Waits so long, or until the caller is gone. */
  private async holdBack(request: Request, reply: FastifyReply, waitMs: number): Promise<void> {
    this.waits.observe(waitMs / 1_000);
    // A body may have a megabyte, and nobody needs it any more.
    request.body = undefined;
    if (reply.raw.destroyed) return;
    const gone = new AbortController();
    const leave = () => gone.abort();
    reply.raw.once('close', leave);
    await pause(waitMs, gone.signal);
    reply.raw.off('close', leave);
  }
}

/** Returns the rate of so many refusals a second, of which none is held back for longer than `HELD_SECONDS`. */
export function refusalRate(perSecond: number): TokenRate {
  return { perSecond, savedMax: perSecond, owedMax: perSecond * HELD_SECONDS };
}

function isPaced(request: Request, { statusCode }: FastifyReply): boolean {
  // The credential of a known caller ended while it waited, which it is told at once.
  if (statusCode === 401 && request.caller !== undefined) return false;
  return PACED.has(statusCode) || (statusCode === 404 && request.caller === undefined) || request.is404;
}
