import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { v7 as uuidv7 } from 'uuid';

import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { Projections, progressRatio } from '../../../eventsourcing/projections/projections.ts';
import { rebuildDecider, rebuildStream } from '../../../eventsourcing/projections/rebuild/rebuild.decider.ts';
import type { RebuildProgress } from '../../../eventsourcing/projections/rebuild/rebuild-progress.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { ProjectionDto, RebuildDto, VerificationDto } from './projections.dto.ts';
import { CancelRebuild, RebuildProjection, VerifyProjection } from './projections.commands.ts';
import { ListProjections } from './projections.queries.ts';

@QueryHandler(ListProjections)
export class ListProjectionsHandler implements IQueryHandler<ListProjections> {
  constructor(private readonly projections: Projections) {}

  async execute(): Promise<ProjectionDto[]> {
    const [statuses, rebuilds] = await Promise.all([this.projections.status(), this.projections.rebuilds()]);
    return Promise.all(
      statuses.map(async ({ name, version, position, status, error, filled }) => {
        const { head, events, seconds } = await this.projections.lag(name);
        const rebuild = rebuilds.get(name);
        return {
          name,
          version,
          position,
          head,
          lag_events: events,
          lag_seconds: seconds,
          status,
          error,
          filled,
          rebuild: rebuild === undefined ? null : toRebuildDto(rebuild),
        };
      }),
    );
  }
}

function toRebuildDto(rebuild: RebuildProgress): RebuildDto {
  const { id, reason, phase, events, eventsPerSecond, startedAt, updatedAt } = rebuild;
  const progress = progressRatio(rebuild);
  const isToldApart = phase === 'folding' && progress > 0 && events > 0 && eventsPerSecond !== null && eventsPerSecond > 0;
  const secondsLeft = isToldApart ? (events / eventsPerSecond) * (1 / progress - 1) : null;
  return {
    id,
    reason,
    phase,
    progress,
    events_per_second: eventsPerSecond,
    eta: secondsLeft === null ? null : new Date(updatedAt.getTime() + secondsLeft * 1_000).toISOString(),
    started_at: startedAt.toISOString(),
  };
}

@CommandHandler(RebuildProjection)
export class RebuildProjectionHandler implements ICommandHandler<RebuildProjection> {
  constructor(
    private readonly projections: Projections,
    private readonly aggregates: Aggregates,
  ) {}

  async execute({ context, projection }: RebuildProjection): Promise<string> {
    requireKnown(this.projections, projection);
    const running = (await this.projections.rebuilds()).get(projection);
    // A rebuild that the service has started itself rebuilds everything, too.
    if (running !== undefined && running.reason !== 'requested') return running.id;
    const rebuildId = uuidv7();
    const command = { type: 'RequestRebuild', rebuildId } as const;
    const { state } = await this.aggregates.execute(
      rebuildStream(this.projections.subjectOf(projection)),
      rebuildDecider,
      command,
      context,
    );
    return state.running ?? rebuildId;
  }
}

@CommandHandler(CancelRebuild)
export class CancelRebuildHandler implements ICommandHandler<CancelRebuild> {
  constructor(
    private readonly projections: Projections,
    private readonly aggregates: Aggregates,
  ) {}

  async execute({ context, projection }: CancelRebuild): Promise<void> {
    requireKnown(this.projections, projection);
    await this.aggregates.execute(
      rebuildStream(this.projections.subjectOf(projection)),
      rebuildDecider,
      { type: 'CancelRebuild' },
      context,
    );
  }
}

@CommandHandler(VerifyProjection)
export class VerifyProjectionHandler implements ICommandHandler<VerifyProjection> {
  constructor(
    private readonly projections: Projections,
    private readonly aggregates: Aggregates,
  ) {}

  async execute({ context, projection }: VerifyProjection): Promise<VerificationDto> {
    requireKnown(this.projections, projection);
    const compared = await this.projections.verify(projection);
    const { equal, position, differences } = compared;
    const command = { type: 'RecordVerification', position, equal, differences: differences.length } as const;
    await this.aggregates.execute(rebuildStream(this.projections.subjectOf(projection)), rebuildDecider, command, context);
    return compared;
  }
}

function requireKnown(projections: Projections, projection: string): void {
  if (!projections.has(projection)) throw new ProblemError('not_found', 'There is no such projection.');
}
