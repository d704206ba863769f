import { Refusal } from '../../kernel/errors/refusal.ts';

export interface ExchangeLimits {
  all: number;
  perAccount: number;
  perAgent: number;
}

/** Counts what is open of public traffic. A place is refused at once if there is none: a WebSocket may keep one for hours. */
export class OpenExchanges {
  private readonly counts = new Map<string, number>();
  private open = 0;

  constructor(private readonly limits: ExchangeLimits) {}

  /** The number of exchanges that are open. */
  get size(): number {
    return this.open;
  }

  /** Takes a place until the returned function is called. Throws `rate_limited`. */
  take(accountId: string, agentId: string): () => void {
    const [account, agent] = [`account ${accountId}`, `agent ${agentId}`];
    if (this.open >= this.limits.all) throw full('public agents');
    if ((this.counts.get(account) ?? 0) >= this.limits.perAccount) throw full('the agents of this account');
    if ((this.counts.get(agent) ?? 0) >= this.limits.perAgent) throw full('this agent');
    this.open += 1;
    this.add(account, 1);
    this.add(agent, 1);
    return () => {
      this.open -= 1;
      this.add(account, -1);
      this.add(agent, -1);
    };
  }

  private add(name: string, change: number): void {
    const count = (this.counts.get(name) ?? 0) + change;
    if (count > 0) this.counts.set(name, count);
    else this.counts.delete(name);
  }
}

function full(what: string): Refusal {
  return new Refusal('rate_limited', `Too many requests to ${what} are open.`, { retryAfterSeconds: 1 });
}
