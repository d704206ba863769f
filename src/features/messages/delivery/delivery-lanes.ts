import { type Limits, sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter, type FairLimiterStats } from '../../../kernel/limits/fair-limiter.ts';
import type { Config } from '../../../kernel/config/config.ts';
import { FailingAgentBackoff } from './failing-agent-backoff.ts';

/**
 * The largest size in memory, in bytes, of the texts of messages and replies in delivery, of which an account may have a quarter. What is built
 * from them takes a few times as much.
 */
const TEXT_BYTES_MAX = 32 * 1024 * 1024;
/** The part of the places that the agents of one account may have, and that one agent may have if that is more than the number below. */
const PLACES_PARTS = { account: 1 / 2, agent: 1 / 125 };
const PLACES_OF_AGENT_MIN = 32;
/** The part of each of these bounds that webhooks without a token have besides. */
const TOKENLESS_PART = 1 / 4;

/** The limits on concurrent deliveries that share them, and the pauses for agents with unusable answers. */
export class DeliveryLane {
  readonly slots: FairLimiter;
  /** The bytes of texts that are in memory. */
  readonly texts: FairLimiter;
  readonly backoff = new FailingAgentBackoff();

  constructor(limits: Limits, part: number) {
    this.slots = new FairLimiter(limits);
    this.texts = new FairLimiter(sharesOf(TEXT_BYTES_MAX * part));
  }

  /** Returns the numbers of deliveries in progress and waiting for a slot, by account, and the bytes of their texts. */
  stats(): FairLimiterStats & { bytes: number } {
    return { ...this.slots.stats(), bytes: this.texts.inUse };
  }
}

/**
 * The lane of chats, files and webhooks with a token, and the lane of webhooks without one. They share no limits, so that webhooks without
 * a token, which anybody may send, never delay other messages. An agent gets one webhook without a token at a time.
 */
export class DeliveryLanes {
  readonly trusted: DeliveryLane;
  private readonly tokenless: DeliveryLane;

  constructor({ deliveriesMax }: Config) {
    const known = sharesOf(deliveriesMax, PLACES_PARTS);
    this.trusted = new DeliveryLane({ ...known, agent: Math.max(known.agent ?? 0, PLACES_OF_AGENT_MIN) }, 1);
    const tokenless = sharesOf(Math.ceil(deliveriesMax * TOKENLESS_PART), PLACES_PARTS);
    this.tokenless = new DeliveryLane({ ...tokenless, agent: 1 }, TOKENLESS_PART);
  }

  of({ tokenless }: { tokenless: boolean }): DeliveryLane {
    return tokenless ? this.tokenless : this.trusted;
  }
}
