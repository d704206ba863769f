import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { agentNotFound } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { invalidField, ProblemError } from '../../../kernel/errors/problem-error.ts';
import { differences, overlaps } from './differences.ts';
import type { ChangeDto, DiffDto, Moment, MomentDto, PastStateDto } from '../entries/history.dto.ts';
import { AgentReplay, type PastAgent } from './agent-replay.ts';
import { GetDiff, GetPastState } from './time-travel.queries.ts';

@QueryHandler(GetPastState)
export class GetPastStateHandler implements IQueryHandler<GetPastState> {
  constructor(private readonly agents: Agents) {}

  async execute({ accountId, agentId, moment }: GetPastState): Promise<PastStateDto> {
    const { revision: head } = await this.agents.loadWithDeleted(agentId, accountId);
    const revision = await revisionAt(this.agents, agentId, head, moment, 'revision');
    const replay = new AgentReplay(agentId);
    let at = '';
    for await (const event of this.agents.events(agentId, { limit: revision + 1 })) {
      replay.apply(event);
      at = event.at;
    }
    return { revision, at, ...replay.view() };
  }
}

@QueryHandler(GetDiff)
export class GetDiffHandler implements IQueryHandler<GetDiff> {
  constructor(private readonly agents: Agents) {}

  async execute({ accountId, agentId, from, to }: GetDiff): Promise<DiffDto> {
    const { revision: head } = await this.agents.loadWithDeleted(agentId, accountId);
    const first = await revisionAt(this.agents, agentId, head, from, 'from');
    const last = await revisionAt(this.agents, agentId, head, to, 'to');
    const walk = new DiffBuilder(agentId, Math.min(first, last));
    for await (const event of this.agents.events(agentId, { limit: Math.max(first, last) + 1 })) walk.apply(event);
    const { earlier, later, changes } = walk.result();
    if (first <= last) return { from: earlier, to: later, changes };
    return { from: later, to: earlier, changes: changes.map(({ before, after, ...rest }) => ({ ...rest, before: after, after: before })) };
  }
}

/** Applies an agent's events, and records which event after a revision changed which path. */
export class DiffBuilder {
  private readonly replay: AgentReplay;
  /** Maps each path to the last event that changed it, in the order of the changes. */
  private readonly changed = new Map<string, string>();
  private earlier: { moment: MomentDto; state: object } | null = null;
  private later: { moment: MomentDto; state: object } | null = null;

  constructor(
    agentId: string,
    private readonly revision: number,
  ) {
    this.replay = new AgentReplay(agentId);
  }

  /** Applies the next event, starting with the first. */
  apply(event: StoredEvent): void {
    this.replay.apply(event);
    if (event.revision < this.revision) return;
    const before = this.later?.state;
    this.later = { moment: { revision: event.revision, at: event.at }, state: comparable(this.replay.view()) };
    this.earlier ??= this.later;
    for (const { path } of before === undefined ? [] : differences(before, this.later.state)) {
      this.changed.delete(path);
      this.changed.set(path, event.id);
    }
  }

  result(): { earlier: MomentDto; later: MomentDto; changes: ChangeDto[] } {
    if (this.earlier === null || this.later === null) throw agentNotFound();
    const latestFirst = [...this.changed].toReversed();
    const changes = differences(this.earlier.state, this.later.state).map((difference) => ({
      ...difference,
      event_id: latestFirst.find(([path]) => overlaps(path, difference.path))?.[1] ?? '',
    }));
    return { earlier: this.earlier.moment, later: this.later.moment, changes };
  }
}

/** Indexes variables by name, because their positions in the list have no meaning. */
function comparable({ env, ...others }: PastAgent): object {
  return { ...others, env: Object.fromEntries(env.map((variable) => [variable.key, variable])) };
}

/** Returns the last revision at a moment: that of the last event that is not later. The store's times may go backwards. */
async function revisionAt(agents: Agents, agentId: string, head: number, moment: Moment, field: string): Promise<number> {
  if ('revision' in moment) {
    if (moment.revision <= head) return moment.revision;
    throw invalidField(field, `must be at most ${head}, the agent's last`);
  }
  for await (const event of agents.events(agentId, { from: head, backwards: true })) if (event.at <= moment.time) return event.revision;
  throw new ProblemError('agent_not_found', 'The agent was not there yet.');
}
