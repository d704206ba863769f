import type { ServerResponse } from 'node:http';

import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { Metrics } from '../../kernel/observability/metrics.ts';
import { onRequestEnd } from '../requests/request-ends.ts';
import { type MooringRequest, shareOrNetworkOf } from '../requests/request.ts';
import { payloadSize } from './payload-size.ts';

const MIB = 1_048_576;
/** The bytes of responses that one process holds in memory until their callers take them: of one share, and of all. */
const LIMITS = { share: 16 * MIB, all: 64 * MIB };
/** The time after which a large response is cut off if its caller takes nothing of it, ms. */
const SILENCE_MS = 30_000;
/** The size from which a response is counted, in bytes: a smaller one fits into the buffer that the system gives to a new connection. */
const COUNTED_BYTES_MIN = 16_384;
/** The size from which a response is cut off if nothing of it is taken, in bytes. */
const LARGE_BYTES_MIN = 65_536;

type Request = FastifyRequest & MooringRequest;
type Reason = 'bytes' | 'silence';

interface Share {
  bytes: number;
  /** The share's responses, the oldest first. */
  responses: Set<Unsent>;
}

interface Unsent {
  name: string;
  bytes: number;
  response: ServerResponse;
}

/**
 * Bounds the memory of responses whose callers are slow to take them, or never do. A share that has too much of it loses its oldest
 * response, whose connection is cut; so does the share that holds the most if all of them have too much together. Small responses are not
 * counted, nor are streams, which are produced as they are taken.
 */
@Injectable()
export class UnsentResponses implements OnModuleInit {
  /** A test sets a shorter time. */
  silenceMs = SILENCE_MS;
  private readonly shares = new Map<string, Share>();
  private readonly unsent = new WeakMap<FastifyRequest, Unsent>();
  private readonly cuts = new Map<Reason, number>([
    ['bytes', 0],
    ['silence', 0],
  ]);
  private all = 0;

  constructor(
    private readonly host: HttpAdapterHost,
    private readonly metrics: Metrics,
  ) {}

  onModuleInit(): void {
    const server = this.host.httpAdapter.getInstance<FastifyInstance>();
    server.addHook('onSend', (request: Request, reply, payload, done) => {
      this.forget(this.unsent.get(request));
      const bytes = payloadSize(payload);
      if (bytes >= COUNTED_BYTES_MIN && !reply.raw.destroyed)
        this.hold(request, { name: shareOrNetworkOf(request), bytes, response: reply.raw });
      done(null, payload);
    });
    onRequestEnd(server, ({ request }) => this.forget(this.unsent.get(request)));
    this.metrics.gauge('mooring_http_unsent_bytes', 'Bytes of responses in memory that their callers have not taken.', () => this.all);
    this.metrics.gauge('mooring_http_cut_responses', 'Responses that were cut off since the start.', () => this.cuts, 'why');
  }

  private hold(request: Request, unsent: Unsent): void {
    const { name, bytes, response } = unsent;
    const share = this.shares.get(name) ?? { bytes: 0, responses: new Set() };
    this.shares.set(name, share);
    share.responses.add(unsent);
    share.bytes += bytes;
    this.all += bytes;
    this.unsent.set(request, unsent);
    if (bytes >= LARGE_BYTES_MIN) response.setTimeout(this.silenceMs, () => this.cut(unsent, 'silence'));
    while (share.bytes > LIMITS.share && share.responses.size > 1) this.cut(oldestOf(share), 'bytes');
    while (this.all > LIMITS.all) this.cut(oldestOf(this.heaviest()), 'bytes');
  }

  private forget(unsent: Unsent | undefined): void {
    const share = unsent === undefined ? undefined : this.shares.get(unsent.name);
    if (unsent === undefined || share?.responses.delete(unsent) !== true) return;
    share.bytes -= unsent.bytes;
    this.all -= unsent.bytes;
    if (share.responses.size === 0) this.shares.delete(unsent.name);
  }

  private cut(unsent: Unsent, why: Reason): void {
    this.forget(unsent);
    this.cuts.set(why, (this.cuts.get(why) ?? 0) + 1);
    unsent.response.destroy();
  }

  /** Returns the share that holds the most. There is one, since something is held. */
  private heaviest(): Share {
    return [...this.shares.values()].reduce((one, other) => (other.bytes > one.bytes ? other : one));
  }
}

function oldestOf({ responses }: Share): Unsent {
  const [oldest] = responses;
  return oldest as Unsent;
}
