import { ByteBudget } from '../../../kernel/limits/byte-budget.ts';
import { FairLimiter, type FairLimits, type FairLimiterStats } from '../../../kernel/limits/fair-limiter.ts';
import type { Config } from '../../../kernel/config/config.ts';
import { BrokenAnswers } from './broken-answers.ts';

/**
 * The largest size in memory, in bytes, of the texts of messages and replies in delivery. What is built from them takes a few times as
 * much.
 */
const TEXT_BYTES_IN_FLIGHT = 32 * 1024 * 1024;
const TEXT_BYTES_PER_ACCOUNT = TEXT_BYTES_IN_FLIGHT / 4;
/** The part of each of these bounds that webhooks without a token have besides. */
const TOKENLESS_PART = 1 / 4;

/** The bounds on messages in delivery that share them, and the pauses that agents with unusable answers cause among them. */
export class DeliveryLane {
  readonly places: FairLimiter;
  readonly budget: ByteBudget;
  readonly broken = new BrokenAnswers();

  constructor(limits: FairLimits, part: number) {
    this.places = new FairLimiter(limits);
    this.budget = new ByteBudget({ limit: TEXT_BYTES_IN_FLIGHT * part, perAccount: TEXT_BYTES_PER_ACCOUNT * part });
  }

  /** Returns the numbers of deliveries in progress and waiting for a place, by account, and the bytes of text that they hold. */
  stats(): FairLimiterStats & { bytes: number } {
    return { ...this.places.stats(), bytes: this.budget.inUse };
  }
}

/**
 * The lane of chats, files and webhooks with a token, and that of webhooks without one: whoever may send those shares nothing with the
 * others that would make them wait. An agent gets one webhook without a token at a time.
 */
export class DeliveryLanes {
  readonly known: DeliveryLane;
  private readonly tokenless: DeliveryLane;

  constructor({ deliveriesMax: limit, deliveriesPerAccount: perAccount, deliveriesPerAgent: perAgent }: Config) {
    this.known = new DeliveryLane({ limit, perAccount, perAgent }, 1);
    const part = (places: number) => Math.ceil(places * TOKENLESS_PART);
    this.tokenless = new DeliveryLane({ limit: part(limit), perAccount: part(perAccount), perAgent: 1 }, TOKENLESS_PART);
  }

  of({ tokenless }: { tokenless: boolean }): DeliveryLane {
    return tokenless ? this.tokenless : this.known;
  }
}
