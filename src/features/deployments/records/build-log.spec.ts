import { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import { START, type EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { prepare } from '../../../eventsourcing/event-store/new-events.ts';
import { deploymentEvents } from '../deployments.events.ts';
import { BuildLog } from './build-log.ts';

const log = new BuildLog({} as EventStore, { id: 'd', agentId: 'a', accountId: 'acme' }, ['canary-of-the-operator']);

it('masks a secret of a message before the message is cut to its length', () => {
  expect(log.redacted('it failed: canary-of-the-operator')).toBe('it failed: ••••••••');
  for (let before = 470; before < 510; before += 1) {
    const message = log.redacted(`${'x'.repeat(before)}canary-of-the-operator`);
    expect(message.length).toBeLessThanOrEqual(500);
    expect(message).not.toContain('c');
  }
});

it('is stored in chunks that fit into an append, whatever the characters of its lines', async () => {
  const catalogue = new EventCatalogue(Object.values(deploymentEvents));
  const stored: { lines: string[] }[] = [];
  const append: EventStore['append'] = async (stream, _, events) => {
    prepare(catalogue, stream, events);
    stored.push(...events.map(({ data }) => data as unknown as { lines: string[] }));
    return { revision: stored.length - 1, position: START, duplicate: false, events: [] };
  };
  const events = { append, readStream: async function* () {} } as unknown as EventStore;
  const written = new BuildLog(events, { id: 'd', agentId: 'a', accountId: 'acme' }, []);
  const line = '\u0001'.repeat(5_000);
  for (let count = 0; count < 300; count += 1) written.line(line);
  await written.flush();
  expect(stored.flatMap(({ lines }) => lines)).toEqual(Array.from({ length: 300 }, () => line.slice(0, 4_000)));
});
