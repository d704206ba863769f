import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { agentsReadModel } from '../agents/index.ts';
import { Config } from '../../kernel/config/config.ts';
import { Database } from '../../postgres/database/database.ts';
import { tableOf } from '../../eventsourcing/projections/projection.ts';
import { deploymentsProjection } from './deployments.projection.ts';
import { digestOfColumn, NeededImages } from './images/image-sweep.queries.ts';

@QueryHandler(NeededImages)
export class NeededImagesHandler implements IQueryHandler<NeededImages> {
  constructor(
    private readonly database: Database,
    private readonly config: Config,
  ) {}

  async execute({ digests }: NeededImages): Promise<ReadonlySet<string>> {
    const deployments = tableOf(deploymentsProjection);
    const agents = tableOf(agentsReadModel);
    const candidate = digestOfColumn(`(state->'candidate'->>'image')`);
    const rows = await this.database.query<{ digest: string }>(
      `select digest from unnest($1::text[]) digest
        where exists (
          select from ${deployments} used
            join ${agents} agent on agent.agent_id = used.agent_id
           where ${digestOfColumn('used.image')} = digest and used.status = 'success'
             and (select count(distinct ${digestOfColumn('newer.image')}) from ${deployments} newer
                   where newer.agent_id = used.agent_id and newer.status = 'success' and ${digestOfColumn('newer.image')} <> digest
                     and (newer.started_at, newer.id) > (used.started_at, used.id)) < $2)
           or exists (select from ${agents} where status = 'deploying' and ${candidate} = digest)`,
      [digests, this.config.rollbackImagesMax],
    );
    return new Set(rows.map(({ digest }) => digest));
  }
}
