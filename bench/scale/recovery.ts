import { randomInt, randomUUID } from 'node:crypto';

import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { span } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { machineLoad, percentile, rounded, summary } from '../support/figures.ts';
import { makeAgent, orderAgent, ScaleBed, together } from '../support/scale-bed.ts';

const IMAGE = 'bench/agent:1';
const AGENTS = 100;
const ROUNDS = Number(process.env.BENCH_KILLS ?? 10);
const CALLERS = 20;
const WORK_MIN_MS = 300;
const WORK_MAX_MS = 4_000;
const SETTLED = ['active', 'sleeping', 'stopped', 'created'];
const PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 50;
const AIM_MS = 10_000;
/** The number of events that are printed of an agent that took longer than the aim. */
const SHOWN_EVENTS = 12;

/** Measures, for kills at random moments under every kind of change, the time from readiness until every agent is settled. */
export async function recovery(): Promise<object> {
  const bed = await ScaleBed.start({
    engine: { programs: { [IMAGE]: messagesProgram({ replyMs: 200 }) } },
    environment: { MOORING_DEEP_SLEEP_AFTER: '5' },
  });
  try {
    const changes = new Changes(bed.owner());
    await changes.fill();
    const perAgent: number[] = [];
    const slowest: number[] = [];
    const lost: string[] = [];
    for (let round = 1; round <= ROUNDS; round++) {
      await changes.during(async () => {
        await span(randomInt(WORK_MIN_MS, WORK_MAX_MS));
        await bed.service.kill();
      });
      await bed.service.start();
      await bed.ready();
      const readyAt = new Date();
      const { times, statuses, slow } = await settling(bed.owner());
      perAgent.push(...times);
      slowest.push(Math.max(...times));
      lost.push(...(await changes.lost(round, statuses)), ...orphans(bed, statuses));
      await changes.fill();
      if (lost.length > 0 || slow.size > 0) console.warn(`round ${round}, ready at ${readyAt.toISOString()}`, slowest.at(-1), lost);
      for (const [agentId, ms] of slow) console.warn(agentId, Math.round(ms), await lastEvents(bed, agentId));
    }
    const over = perAgent.filter((ms) => ms > AIM_MS).length;
    const figures = {
      kills: ROUNDS,
      agents: AGENTS,
      changes_acknowledged: changes.acknowledged,
      settled_ms: { ...summary(perAgent), p99: percentile(perAgent, 0.99) },
      slowest_of_a_round_ms: summary(slowest),
      over_10_s: over,
      over_10_s_percent: rounded((over / perAgent.length) * 100),
      lost,
    };
    console.table([{ ...figures.settled_ms, kills: ROUNDS, over_10_s: over, lost: lost.length }]);
    return { aim: 'each agent within 10 000 ms, nothing lost', ...figures, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
}

/**
 * Returns, for each agent, the time (ms from now) at which it was last seen in transit, or 0 if it never was. `slow` are those over the
 * aim.
 */
async function settling(owner: Caller): Promise<{ times: number[]; statuses: Map<string, string>; slow: Map<string, number> }> {
  const began = performance.now();
  const unsettledAt = new Map<string, number>();
  for (;;) {
    const statuses = await allStatuses(owner);
    const now = performance.now() - began;
    let waiting = 0;
    for (const [agentId, status] of statuses) {
      if (!unsettledAt.has(agentId)) unsettledAt.set(agentId, 0);
      if (SETTLED.includes(status)) continue;
      unsettledAt.set(agentId, now);
      waiting += 1;
    }
    if (waiting === 0 || now > PATIENCE_MS) {
      const slow = new Map([...unsettledAt].filter(([, ms]) => ms > AIM_MS));
      return { times: [...unsettledAt.values()], statuses, slow };
    }
    await span(LOOK_EVERY_MS);
  }
}

/** Returns the latest events of an agent, which show where its time went. */
async function lastEvents(bed: ScaleBed, agentId: string): Promise<string[]> {
  const rows = await bed.query<{ at: Date; type: string }>(
    `select at, type from es_event where stream = 'agent-${agentId}' order by position desc limit ${SHOWN_EVENTS}`,
  );
  return rows.toReversed().map(({ at, type }) => `${at.toISOString()} ${type}`);
}

async function allStatuses(owner: Caller): Promise<Map<string, string>> {
  const statuses = new Map<string, string>();
  let path = '/api/v1/agents?limit=200';
  for (;;) {
    const { body, headers } = await owner.done('GET', path);
    for (const { agent_id, status } of body) statuses.set(agent_id, status);
    const next = /<([^>]+)>;\s*rel="next"/.exec(String(headers.link ?? ''))?.[1];
    if (next === undefined) return statuses;
    const url = new URL(next, 'http://service');
    path = `${url.pathname}${url.search}`;
  }
}

/** Returns the containers of agents that do not exist, and second containers. */
function orphans(bed: ScaleBed, statuses: Map<string, string>): string[] {
  const seen = new Set<string>();
  return bed.engine.containers.bearing(['mooring.agent'], true).flatMap(({ name, labels }) => {
    const agentId = labels['mooring.agent'] ?? '';
    if (!statuses.has(agentId)) return [`${name} has no agent`];
    if (seen.has(agentId)) return [`${name} is a second container`];
    seen.add(agentId);
    return [];
  });
}

/** Callers that perform every operation on agents, and remember what was acknowledged. */
class Changes {
  agents: string[] = [];
  acknowledged = 0;
  private deleted = new Set<string>();
  private descriptions = new Map<string, { acknowledged: string; asked: Set<string> }>();
  private working = false;

  constructor(private readonly owner: Caller) {}

  /** Makes as many agents as are missing. */
  async fill(): Promise<void> {
    const missing = Array.from({ length: AGENTS - this.agents.length }, () => IMAGE);
    this.agents.push(...(await together(missing, 8, (image) => makeAgent(this.owner, image))));
  }

  async during(work: () => Promise<void>): Promise<void> {
    this.working = true;
    const callers = Array.from({ length: CALLERS }, async () => {
      while (this.working) await this.anything().catch(() => undefined);
    });
    await work();
    this.working = false;
    await Promise.all(callers);
  }

  private async anything(): Promise<void> {
    // A killed service does not replace deleted agents.
    if (this.agents.length < AGENTS / 2) return span(LOOK_EVERY_MS);
    const agentId = this.agents[randomInt(this.agents.length)] ?? '';
    const dice = randomInt(100);
    if (dice < 35) await this.done('POST', `/api/agents/${agentId}/chat`, { message: 'hello' });
    else if (dice < 50) await this.describe(agentId);
    else if (dice < 60) await this.done('POST', `/api/v1/agents/${agentId}/deploy`);
    else if (dice < 65) await this.replace(agentId);
    else await this.done('POST', `/api/agents/${agentId}/${['sleep', 'sleep', 'start', 'stop', 'restart'][randomInt(5)]}`);
  }

  private async done(method: string, path: string, body?: unknown): Promise<boolean> {
    const { status } = await this.owner.call(method, path, body);
    const acknowledged = status >= 200 && status < 300;
    if (acknowledged) this.acknowledged += 1;
    else await span(5);
    return acknowledged;
  }

  private async describe(agentId: string): Promise<void> {
    const description = randomUUID();
    const known = this.descriptions.get(agentId) ?? { acknowledged: '', asked: new Set() };
    this.descriptions.set(agentId, known);
    known.asked.add(description);
    if (!(await this.done('PATCH', `/api/v1/agents/${agentId}`, { description }))) return;
    known.acknowledged = description;
    // A change that was requested earlier may have been written before this one as well.
    if (known.asked.size > 50) known.asked = new Set([description]);
  }

  private async replace(agentId: string): Promise<void> {
    this.agents = this.agents.filter((other) => other !== agentId);
    if (await this.done('DELETE', `/api/v1/agents/${agentId}`)) this.deleted.add(agentId);
    this.agents.push(await orderAgent(this.owner, IMAGE));
    this.acknowledged += 1;
  }

  /** Returns the acknowledged changes that are missing. */
  async lost(round: number, statuses: Map<string, string>): Promise<string[]> {
    const lost = this.agents.filter((agentId) => !statuses.has(agentId)).map((agentId) => `round ${round}: agent ${agentId} is gone`);
    for (const agentId of this.deleted) if (statuses.has(agentId)) lost.push(`round ${round}: agent ${agentId} was deleted and is there`);
    for (const [agentId, status] of statuses) if (!SETTLED.includes(status)) lost.push(`round ${round}: agent ${agentId} is ${status}`);
    for (const [agentId, { acknowledged, asked }] of this.descriptions) {
      if (acknowledged === '' || !this.agents.includes(agentId)) continue;
      const { body } = await this.owner.done('GET', `/api/v1/agents/${agentId}`);
      if (!asked.has(body.description)) lost.push(`round ${round}: agent ${agentId} lost its description`);
    }
    return lost;
  }
}
