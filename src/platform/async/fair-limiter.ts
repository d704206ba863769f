import { Node, Yallist } from 'yallist';

import { type Place, RoundRobin } from './round-robin.ts';

/** Whom work is for. Places are given to accounts in turn, then to the agents of an account in turn. */
export interface Share {
  account: string;
  agent: string;
}

export interface FairLimits {
  /** Works that go on at once. */
  limit: number;
  /** Of those, how many may be of one account; all of them where absent. */
  perAccount?: number;
  /** How many may be of one agent; all of them where absent. */
  perAgent?: number;
}

export interface FairLimiterStats {
  running: number;
  waiting: number;
  /** How long the work that waits longest has waited, ms; 0 where none waits. */
  oldestWaitMs: number;
  /** Of every account that has work here, those with the most first. */
  accounts: { account: string; running: number; waiting: number }[];
}

interface Waiter {
  since: number;
  start(): void;
}

interface AgentLine {
  account: AccountLine;
  name: string;
  running: number;
  waiting: Yallist<Waiter>;
  /** Where it waits for its account's next place; null where nothing of it waits, or it has all that it may have. */
  place: Place<AgentLine> | null;
}

interface AccountLine {
  name: string;
  running: number;
  waiting: number;
  agents: Map<string, AgentLine>;
}

/**
 * Bounds how much work goes on at once, fairly: a free place goes to the account whose turn it is, and there to the agent whose turn it is.
 * How much waits is for its callers to bound.
 */
export class FairLimiter {
  private readonly accounts = new Map<string, AccountLine>();
  /** The agents that may start something, in groups by account. */
  private readonly ready = new RoundRobin<AgentLine>();
  private running = 0;

  constructor(private readonly limits: FairLimits) {}

  /** Runs the work as soon as it has a place. Rejects with the signal's reason where that aborts before. */
  async run<T>(share: Share, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const agent = this.agentOf(share);
    await this.place(agent, signal);
    try {
      return await work();
    } finally {
      this.leave(agent);
    }
  }

  /** Takes time in proportion to the agents that have work here. */
  stats(): FairLimiterStats {
    const lines = [...this.accounts.values()];
    const oldest = Math.min(
      ...lines.flatMap(({ agents }) => [...agents.values()].map(({ waiting }) => waiting.head?.value.since ?? Infinity)),
    );
    return {
      running: this.running,
      waiting: lines.reduce((sum, { waiting }) => sum + waiting, 0),
      oldestWaitMs: oldest === Infinity ? 0 : performance.now() - oldest,
      accounts: lines
        .map(({ name, running, waiting }) => ({ account: name, running, waiting }))
        .sort((a, b) => b.running + b.waiting - a.running - a.waiting),
    };
  }

  private place(agent: AgentLine, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const node = new Node<Waiter>({
        since: performance.now(),
        start: () => {
          signal.removeEventListener('abort', giveUp);
          resolve();
        },
      });
      const giveUp = () => {
        agent.waiting.removeNode(node);
        agent.account.waiting -= 1;
        this.settle(agent);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      agent.waiting.pushNode(node);
      agent.account.waiting += 1;
      this.settle(agent);
      this.startNext();
    });
  }

  private startNext(): void {
    while (this.running < this.limits.limit) {
      const agent = this.ready.take();
      if (agent === undefined) return;
      agent.place = null;
      const waiter = agent.waiting.shift() as Waiter;
      this.running += 1;
      agent.running += 1;
      agent.account.running += 1;
      agent.account.waiting -= 1;
      if (agent.account.running >= (this.limits.perAccount ?? Infinity)) this.ready.pause(agent.account.name);
      this.settle(agent);
      waiter.start();
    }
  }

  private leave(agent: AgentLine): void {
    this.running -= 1;
    agent.running -= 1;
    agent.account.running -= 1;
    this.ready.resume(agent.account.name);
    this.settle(agent);
    this.startNext();
  }

  /** Lets the agent have a turn where it may start something, and forgets it where it has nothing here any more. */
  private settle(agent: AgentLine): void {
    const { account } = agent;
    const isReady = agent.waiting.length > 0 && agent.running < (this.limits.perAgent ?? Infinity);
    if (isReady) agent.place ??= this.ready.add(account.name, agent);
    else if (agent.place !== null) {
      this.ready.remove(agent.place);
      agent.place = null;
    }
    if (agent.waiting.length > 0 || agent.running > 0) return;
    account.agents.delete(agent.name);
    if (account.agents.size === 0) this.accounts.delete(account.name);
  }

  private agentOf({ account, agent }: Share): AgentLine {
    let line = this.accounts.get(account);
    if (line === undefined) {
      line = { name: account, running: 0, waiting: 0, agents: new Map() };
      this.accounts.set(account, line);
    }
    let found = line.agents.get(agent);
    if (found === undefined) {
      found = { account: line, name: agent, running: 0, waiting: new Yallist(), place: null };
      line.agents.set(agent, found);
    }
    return found;
  }
}
