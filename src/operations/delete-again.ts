import type pg from 'pg';
import { v7 as uuidv7 } from 'uuid';

import type { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';
import type { JsonObject } from '../eventsourcing/event-store/event-definition.ts';
import { START, type EventMetadata } from '../eventsourcing/event-store/event-store.ts';
import { streamOf } from '../sandboxes/index.ts';
import { endOf, type SandboxEnd } from './sandbox-ends.ts';
import { storedJson } from '../eventsourcing/event-store/stored-json.ts';

const AT_A_TIME = 1_000;

/**
 * Requests the deletion of each sandbox whose key is destroyed, as its owner did, if the restored log is older than that deletion. Returns
 * these sandboxes. Must run in the transaction that restores the log.
 */
export async function repeatDeletions(owner: pg.Client, catalogue: EventCatalogue, shredded: Iterable<string>): Promise<string[]> {
  const subjects = [...shredded].map((sandboxId) => ({ sandboxId, stream: streamOf(sandboxId), end: endOf(sandboxId) }));
  const again: string[] = [];
  for (let from = 0; from < subjects.length; from += AT_A_TIME) {
    const page = subjects.slice(from, from + AT_A_TIME);
    const { rows } = await owner.query<{ stream: string }>(
      `select s.stream from unnest($1::text[], $2::text[]) s (stream, requested)
        where exists (select from es_event e where e.stream = s.stream)
          and not exists (select from es_event e where e.stream = s.stream and e.type = s.requested)`,
      [page.map(({ stream }) => stream), page.map(({ end }) => end.requested)],
    );
    const kept = new Set(rows.map(({ stream }) => stream));
    for (const { sandboxId, stream, end } of page)
      if (kept.has(stream) && (await requestDeletion(owner, catalogue, stream, end))) again.push(sandboxId);
  }
  return again;
}

async function requestDeletion(owner: pg.Client, catalogue: EventCatalogue, stream: string, end: SandboxEnd): Promise<boolean> {
  const { rows } = await owner.query<{ version: string; id: string; type: string; schema_version: number; data: JsonObject }>(
    'select version, id, type, schema_version, data from es_event where stream = $1 order by version',
    [stream],
  );
  const stored = rows.map(({ id, type, schema_version: schemaVersion, data }) =>
    catalogue.upcast({ id, type, schemaVersion, data, stream, revision: 0, position: START, at: '', metadata: nobody }),
  );
  const deletion = end.deletionOf(stored, new Date());
  if (deletion === null) return false;
  const { accountId, events } = deletion;
  const metadata: EventMetadata = { ...nobody, account_id: accountId };
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
