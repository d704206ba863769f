import { type BeforeApplicationShutdown, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';

import { Config } from '../../config.ts';
import { Clock } from '../clock.ts';
import { Refusal } from '../refusal.ts';
import type { MooringRequest } from './access.ts';
import type { Caller } from './caller.ts';
import { sendProblem } from './problem.filter.ts';

/** The interval at which the keys in use are checked for expiry, ms. */
const LOOK_EVERY_MS = 500;
/** The number of ended keys that are remembered, since a request may be in the gate when its key ends. */
const ENDS_MAX = 10_000;

interface OfKey {
  caller: Caller;
  replies: Set<FastifyReply>;
}

/** Tracks the running requests, ends those of a key that has ended, and bounds the number of open streams. */
@Injectable()
export class OpenRequests implements OnModuleInit, BeforeApplicationShutdown {
  private readonly logger = new Logger('Http');
  private readonly byKey = new Map<string, OfKey>();
  private readonly ended = new LRUCache<string, true>({ max: ENDS_MAX });
  private readonly streams = new Map<string, number>();
  private allStreams = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly host: HttpAdapterHost,
    private readonly config: Config,
    private readonly clock: Clock,
  ) {}

  onModuleInit(): void {
    this.host.httpAdapter.getInstance<FastifyInstance>().addHook('onResponse', (request: FastifyRequest & MooringRequest, reply, done) => {
      if (request.caller !== undefined) this.remove(request.caller, reply);
      done();
    });
    this.timer = setInterval(() => this.endExpired(), LOOK_EVERY_MS).unref();
  }

  beforeApplicationShutdown(): void {
    clearInterval(this.timer);
  }

  /** Returns the ids of the keys with running requests. */
  keys(): string[] {
    return [...this.byKey.keys()];
  }

  /** Adds a request that passed the gate. Throws `unauthenticated` if the key has ended meanwhile. */
  add(caller: Caller, reply: FastifyReply): void {
    if (caller.kind !== 'api_key') return;
    if (this.ended.has(caller.id)) throw keyEnded();
    const ofKey = this.byKey.get(caller.id) ?? { caller, replies: new Set() };
    ofKey.replies.add(reply);
    this.byKey.set(caller.id, ofKey);
  }

  /** Ends the requests of the key: a stream breaks off, and a waiting caller gets 401. */
  end(keyId: string): void {
    this.ended.set(keyId, true);
    for (const reply of this.byKey.get(keyId)?.replies ?? []) sendProblem(keyEnded(), reply.request, reply, this.logger);
    this.byKey.delete(keyId);
  }

  /** Counts a stream until its connection ends. Throws `rate_limited` if the account, or the process, has too many. */
  addStream(reply: FastifyReply): void {
    const account = (reply.request as FastifyRequest & MooringRequest).caller?.accountId ?? '';
    const ofAccount = this.streams.get(account) ?? 0;
    if (ofAccount >= this.config.streamsPerAccount) throw tooMany('This account has too many streams open.');
    if (this.allStreams >= this.config.streamsMax) throw tooMany('Too many streams are open.');
    if (reply.raw.destroyed) return;
    this.streams.set(account, ofAccount + 1);
    this.allStreams += 1;
    reply.raw.once('close', () => this.removeStream(account));
  }

  private removeStream(account: string): void {
    const left = (this.streams.get(account) ?? 1) - 1;
    if (left > 0) this.streams.set(account, left);
    else this.streams.delete(account);
    this.allStreams -= 1;
  }

  private remove({ id }: Caller, reply: FastifyReply): void {
    const ofKey = this.byKey.get(id);
    ofKey?.replies.delete(reply);
    if (ofKey?.replies.size === 0) this.byKey.delete(id);
  }

  private endExpired(): void {
    const now = this.clock.now().getTime();
    for (const [id, { caller }] of this.byKey) if ((caller.expiresAt ?? Infinity) <= now) this.end(id);
  }
}

function keyEnded(): Refusal {
  return new Refusal('unauthenticated', 'The key was revoked, or has expired. What the request asked for may have been done.');
}

function tooMany(detail: string): Refusal {
  return new Refusal('rate_limited', detail, { retryAfterSeconds: 10 });
}
