import type { ServerResponse } from 'node:http';

import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { AccountCounter, sharesOf } from '../../kernel/limits/account-counter.ts';
import { Metrics } from '../../kernel/observability/metrics.ts';
import { onRequestEnd } from '../requests/request-ends.ts';
import { type MooringRequest, shareOrNetworkOf } from '../requests/request.ts';
import { payloadSize } from './payload-size.ts';

const MIB = 1_048_576;
/** The bytes of responses that one process holds in memory until their callers take them; an account, or a network, may have a quarter of them. */
const LIMITS = sharesOf(64 * MIB);
/** The time after which a large response is cut off if its caller takes nothing of it, in ms. */
const SILENCE_MS = 30_000;
/** The size from which a response is counted, in bytes: a smaller one fits into the buffer that the system gives to a new connection. */
const COUNTED_BYTES_MIN = 16_384;
/** The size from which a response is cut off if nothing of it is taken, in bytes. */
const LARGE_BYTES_MIN = 65_536;

type Request = FastifyRequest & MooringRequest;
type Reason = 'bytes' | 'silence';

interface Unsent {
  account: string;
  bytes: number;
  response: ServerResponse;
}

/**
 * Bounds the memory of responses whose callers are slow to take them, or never do. An account that has too much of it loses its oldest
 * response, whose connection is cut; so does the one that holds the most if all of them have too much together. Small responses are not
 * counted, nor are streams, which are produced as they are taken.
 */
@Injectable()
export class UnsentResponses implements OnModuleInit {
  /** A test sets a shorter time. */
  silenceMs = SILENCE_MS;
  private readonly bytes = new AccountCounter();
  /** The responses of each account, the oldest first. */
  private readonly responses = new Map<string, Set<Unsent>>();
  private readonly unsent = new WeakMap<FastifyRequest, Unsent>();
  private readonly cuts = new Map<Reason, number>([
    ['bytes', 0],
    ['silence', 0],
  ]);

  constructor(
    private readonly host: HttpAdapterHost,
    private readonly metrics: Metrics,
  ) {}

  onModuleInit(): void {
    const server = this.host.httpAdapter.getInstance<FastifyInstance>();
    server.addHook('onSend', (request: Request, reply, payload, done) => {
      this.evict(this.unsent.get(request));
      const bytes = payloadSize(payload);
      if (bytes >= COUNTED_BYTES_MIN && !reply.raw.destroyed)
        this.hold(request, { account: shareOrNetworkOf(request), bytes, response: reply.raw });
      done(null, payload);
    });
    onRequestEnd(server, ({ request }) => this.evict(this.unsent.get(request)));
    this.metrics.gauge(
      'mooring_http_unsent_bytes',
      'Bytes of responses in memory that their callers have not taken.',
      () => this.bytes.all,
    );
    this.metrics.gauge('mooring_http_cut_responses', 'Responses that were cut off since the start.', () => this.cuts, 'why');
  }

  private hold(request: Request, unsent: Unsent): void {
    const { account, bytes, response } = unsent;
    const own = this.responses.get(account) ?? new Set();
    this.responses.set(account, own.add(unsent));
    this.bytes.add({ account }, bytes);
    this.unsent.set(request, unsent);
    if (bytes >= LARGE_BYTES_MIN) response.setTimeout(this.silenceMs, () => this.cut(unsent, 'silence'));
    while (this.bytes.of(account) > LIMITS.account && own.size > 1) this.cut(oldestOf(own), 'bytes');
    while (this.bytes.all > LIMITS.all) this.cut(oldestOf(this.heaviest()), 'bytes');
  }

  private evict(unsent: Unsent | undefined): void {
    const own = unsent === undefined ? undefined : this.responses.get(unsent.account);
    if (unsent === undefined || own?.delete(unsent) !== true) return;
    this.bytes.add(unsent, -unsent.bytes);
    if (own.size === 0) this.responses.delete(unsent.account);
  }

  private cut(unsent: Unsent, why: Reason): void {
    this.evict(unsent);
    this.cuts.set(why, (this.cuts.get(why) ?? 0) + 1);
    unsent.response.destroy();
  }

  /** Returns the responses of the account that holds the most. There is one, since something is held. */
  private heaviest(): Set<Unsent> {
    const [[account] = ['']] = this.bytes.byAccount();
    return this.responses.get(account) ?? new Set();
  }
}

function oldestOf([oldest]: Set<Unsent>): Unsent {
  return oldest as Unsent;
}
