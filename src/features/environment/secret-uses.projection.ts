import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import type { AgentEvent } from '../agents/index.ts';
import { Database } from '../../postgres/database/database.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { CountSecretUsers, FindSecretUsers, type SecretUsers } from '../secrets/index.ts';
import type { EnvironmentEvent } from './environment.events.ts';
import { secretUsesTable } from './secret-uses.table.ts';

/** The most agents that a response about a secret lists. */
const NAMED_MAX = 20;

/** Every agent that has a variable which takes its value from a secret of the account. */
export const secretUsesProjection: Projection<typeof secretUsesTable> = {
  name: 'secret_uses',
  version: 1,
  filter: {
    eventClass: 'core',
    categories: ['agent'],
    types: ['VariableLinked', 'VariableSet', 'VariableRemoved', 'AgentDeletionRequested'],
  },
  table: secretUsesTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const event = stored as unknown as EnvironmentEvent | AgentEvent;
    const agent_id = idOf(stored.stream);
    const row = rows.get(agent_id);
    if (event.type === 'AgentDeletionRequested') return rows.delete(agent_id);
    if (event.type !== 'VariableLinked' && event.type !== 'VariableSet' && event.type !== 'VariableRemoved') return;
    const { key } = event.data;
    const variables = (row?.variables ?? []).filter((variable) => variable.key !== key);
    if (event.type === 'VariableLinked') variables.push({ key, secret: event.data.secret });
    if (variables.length === 0) return rows.delete(agent_id);
    const account_id = event.type === 'VariableLinked' ? event.data.account_id : (row?.account_id ?? '');
    rows.set(agent_id, { agent_id, account_id, variables, secrets: [...new Set(variables.map(({ secret }) => secret))] });
  },
};

const SECRET_USES = tableOf(secretUsesProjection);

@QueryHandler(CountSecretUsers)
export class CountSecretUsersHandler implements IQueryHandler<CountSecretUsers> {
  constructor(private readonly database: Database) {}

  async execute({ accountId }: CountSecretUsers): Promise<ReadonlyMap<string, number>> {
    const counts = await this.database.query<{ secret: string; agents: number }>(
      `select secret, count(*)::int as agents from ${SECRET_USES}, unnest(secrets) as secret where account_id = $1 group by secret`,
      [accountId],
    );
    return new Map(counts.map(({ secret, agents }) => [secret, agents]));
  }
}

@QueryHandler(FindSecretUsers)
export class FindSecretUsersHandler implements IQueryHandler<FindSecretUsers> {
  constructor(private readonly database: Database) {}

  async execute({ accountId, name }: FindSecretUsers): Promise<SecretUsers> {
    const found = await this.database.query<{ agent_id: string; total: number }>(
      `select agent_id, count(*) over ()::int as total from ${SECRET_USES} where account_id = $1 and $2 = any (secrets)
        order by agent_id limit ${NAMED_MAX}`,
      [accountId, name],
    );
    return { agentIds: found.map(({ agent_id }) => agent_id), total: found[0]?.total ?? 0 };
  }
}
