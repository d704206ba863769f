import { Node, Yallist } from 'yallist';

import { type Place, RoundRobin } from './round-robin.ts';

/** The account and the agent that work is for. Slots go to accounts in turn, and then to the agents of an account in turn. */
export interface Share {
  account: string;
  agent: string;
}

export interface FairLimits {
  /** The most pieces of work that run at once. */
  limit: number;
  /** The most that run at once for one account; by default all of them. */
  perAccount?: number;
  /** The most that run at once for one agent; by default all of them. */
  perAgent?: number;
}

export interface FairLimiterStats {
  running: number;
  waiting: number;
  /** The time that the oldest waiting work has waited, in milliseconds; 0 if none waits. */
  oldestWaitMs: number;
  /** The numbers of each account that has work here, those with the most work first. */
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
  /** The agent's place in the queue for its account's next slot; null if none of its work waits, or it is at its limit. */
  place: Place<AgentLine> | null;
}

interface AccountLine {
  name: string;
  running: number;
  waiting: number;
  agents: Map<string, AgentLine>;
}

/**
 * Limits how much work runs at once, fairly: a free slot goes to the account whose turn it is, and there to the agent whose turn it is.
 * Callers limit how much work waits.
 */
export class FairLimiter {
  private readonly accounts = new Map<string, AccountLine>();
  /** The agents that may start work, in groups by account. */
  private readonly ready = new RoundRobin<AgentLine>();
  private running = 0;

  constructor(private readonly limits: FairLimits) {}

  /** Runs the work as soon as it gets a slot. Rejects with the signal's reason if it aborts before. */
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

  /** Returns the current numbers. Takes time in proportion to the agents that have work here. */
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

  /** Queues the agent if it may start work, removes it from the queue if not, and forgets it if it has no work here any more. */
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
