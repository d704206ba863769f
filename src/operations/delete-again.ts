import type pg from 'pg';
import { v7 as uuidv7 } from 'uuid';

import { agentStream, deletionOf, evolveAgent, type AgentEvent, type AgentState } from '../agents/index.ts';
import type { EventCatalogue } from '../platform/event-store/event-catalogue.ts';
import type { JsonObject } from '../platform/event-store/event-definition.ts';
import { START, type EventMetadata } from '../platform/event-store/event-store.ts';
import { storedJson } from '../platform/event-store/stored-json.ts';

const AT_A_TIME = 1_000;

/**
 * Requests the deletion of each agent whose key is destroyed, if the restored log is older than its deletion, as its owner did. Returns
 * these agents. Has to run in the transaction that restores the log.
 */
export async function repeatDeletions(owner: pg.Client, catalogue: EventCatalogue, shredded: Iterable<string>): Promise<string[]> {
  const subjects = [...shredded];
  const again: string[] = [];
  for (let from = 0; from < subjects.length; from += AT_A_TIME) {
    const { rows } = await owner.query<{ agent_id: string }>(
      `select s as agent_id from unnest($1::text[]) s
        where exists (select from es_event e where e.stream = $2 || s)
          and not exists (select from es_event e where e.stream = $2 || s and e.type = 'AgentDeletionRequested')`,
      [subjects.slice(from, from + AT_A_TIME), agentStream('')],
    );
    for (const { agent_id } of rows) if (await askForDeletion(owner, catalogue, agentStream(agent_id))) again.push(agent_id);
  }
  return again;
}

async function askForDeletion(owner: pg.Client, catalogue: EventCatalogue, stream: string): Promise<boolean> {
  const { rows } = await owner.query<{ version: string; id: string; type: string; schema_version: number; data: JsonObject }>(
    'select version, id, type, schema_version, data from es_event where stream = $1 order by version',
    [stream],
  );
  const agent = rows.reduce<AgentState>((state, { id, type, schema_version: schemaVersion, data }) => {
    const event = catalogue.upcast({
      id,
      type,
      schemaVersion,
      data,
      stream,
      revision: 0,
      position: START,
      at: '',
      metadata: nobody,
    });
    return evolveAgent(state, event as unknown as AgentEvent);
  }, null);
  if (agent === null) return false;
  const events = deletionOf(agent, new Date());
  const metadata: EventMetadata = { ...nobody, account_id: agent.accountId };
  let revision = Number(rows.at(-1)?.version);
  for (const { type, data } of events) {
    const values = [
      stream,
      revision,
      uuidv7(),
      type,
      catalogue.versionOf(type),
      storedJson(data),
      storedJson({ ...metadata, actor: { ...metadata.actor } }),
    ];
    await owner.query('select public.es_append_one($1, $2, $3, $4, $5, $6, $7)', values);
    revision += 1;
  }
  return events.length > 0;
}

const nobody: EventMetadata = {
  actor: { kind: 'system', id: 'restore', name: 'restore' },
  account_id: null,
  request_id: null,
  causation_id: null,
  ip: null,
};
