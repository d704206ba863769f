import { Database } from '../../src/postgres/database/database.ts';
import { EventStore, START } from '../../src/eventsourcing/event-store/event-store.ts';
import type { TestResponse, TestServer } from './http-server.ts';

/** Returns the secret as it is, URL-encoded, in base64, and its part before the first slash. */
export function spellingsOf(secret: string): string[] {
  return [secret, encodeURIComponent(secret), Buffer.from(secret).toString('base64'), secret.split('/', 1)[0] as string];
}

/**
 * Expects that no spelling of the secret, nor its part before the first slash, occurs in the responses, a table, an event or a log line.
 */
export async function expectHidden(server: TestServer, secret: string, answers: TestResponse[]): Promise<void> {
  const spellings = spellingsOf(secret);
  const shown = (text: string) => spellings.filter((spelling) => text.includes(spelling));
  for (const { text } of answers) expect(shown(text)).toEqual([]);
  const database = server.app.get(Database);
  const tables = await database.query<{ name: string }>(`select tablename as name from pg_tables where schemaname = 'public'`);
  for (const { name } of tables.filter((table) => table.name !== 'mooring_migration')) {
    const rows = await database.query<{ row: string }>(`select t::text as row from "${name}" t`);
    expect(rows.filter(({ row }) => shown(row).length > 0)).toEqual([]);
  }
  for await (const batch of server.app.get(EventStore, { strict: false }).readAll(START, { eventClass: 'core' }))
    expect(batch.filter((event) => shown(JSON.stringify(event)).length > 0)).toEqual([]);
  expect(server.logLines.filter((line) => shown(line).length > 0)).toEqual([]);
}
