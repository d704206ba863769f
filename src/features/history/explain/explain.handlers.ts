import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { agentStream } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';
import { AuditEntries } from '../audit/audit-entries.ts';
import { auditProjection } from '../audit/audit.projection.ts';
import type { CauseDto, ExplanationDto } from '../entries/history.dto.ts';
import { Transitions } from './transitions.ts';
import { ExplainStatus } from './explain.queries.ts';

/** The most causes in one explanation. The nearest ones are kept. */
const CAUSES_MAX = 50;

@QueryHandler(ExplainStatus)
export class ExplainStatusHandler implements IQueryHandler<ExplainStatus> {
  constructor(
    private readonly agents: Agents,
    private readonly catalogue: EventCatalogue,
    private readonly readModels: ReadModels,
    private readonly entries: AuditEntries,
  ) {}

  async execute({ accountId, agentId }: ExplainStatus): Promise<ExplanationDto> {
    const { position } = await this.agents.loadWithDeleted(agentId, accountId);
    const transitions = new Transitions();
    for await (const event of this.agents.events(agentId)) transitions.apply(event);
    await this.readModels.waitFor(auditProjection.name, position);
    const causes: CauseDto[] = [];
    for (
      let event = transitions.last;
      event !== null && causes.length < CAUSES_MAX;
      event = await this.causeOf(agentId, event, transitions)
    )
      causes.unshift(this.view(event, transitions));
    return { status: transitions.status, since: transitions.since, causes };
  }

  /**
   * Returns null if a caller requested the event, which is then the first cause. By the rules of the state machine, an event without a
   * recorded cause follows from the transition before it.
   */
  private async causeOf(agentId: string, event: StoredEvent, transitions: Transitions): Promise<StoredEvent | null> {
    const { actor, causation_id } = event.metadata;
    if (actor.kind !== 'system' || event.stream !== agentStream(agentId)) return null;
    const standing = transitions.before(event);
    if (isIdle(event)) return (await this.entries.lastMessageTo(agentId, standing?.position ?? null, event.position)) ?? standing;
    if (causation_id === null) return standing;
    return transitions.byId(causation_id) ?? (await this.entries.messageTo(agentId, causation_id, event.position)) ?? standing;
  }

  private view(event: StoredEvent, transitions: Transitions): CauseDto {
    const { id: event_id, type, at, metadata } = event;
    const summary = this.catalogue.summaryOf(event);
    return {
      event_id,
      type,
      at,
      actor: metadata.actor,
      summary: isIdle(event) ? `${summary}, for ${transitions.idleSecondsAt(event)} s` : summary,
    };
  }
}

function isIdle({ type, data }: StoredEvent): boolean {
  return type === 'AgentSleepRequested' && data.reason === 'idle';
}
