import { FakeDockerEngine } from '../support/fake-docker-engine/fake-docker-engine.ts';
import { somePrefix } from '../support/eventstoredb/location.ts';
import { FakeEventStoreDb } from '../support/eventstoredb/fake-eventstoredb.ts';
import { hostileProgram } from '../support/hostile-agent.ts';
import { StartedService } from '../support/started-service.ts';
import { databaseOf, dump } from '../support/stored-texts.ts';
import { until } from '../support/until.ts';

const IMAGE = 'test/hostile:1';
const CANARY = 'c4n4ry-that-an-agent-printed';
/** The time in which everything that an agent printed has to be gone after its deletion, in ms. */
const REMOVED_WITHIN_MS = 60_000;

describe.each(['postgres', 'eventstoredb'])('an agent whose log is in %s', (kind) => {
  let engine: FakeDockerEngine;
  let eventStore: FakeEventStoreDb;
  let service: StartedService;

  beforeAll(async () => {
    [engine, eventStore] = await Promise.all([
      FakeDockerEngine.start({ programs: { [IMAGE]: hostileProgram(() => undefined) } }),
      FakeEventStoreDb.start(),
    ]);
    const log = { EVENT_STORE: kind, EVENTSTORE_URL: eventStore.url, EVENTSTORE_PREFIX: somePrefix() };
    service = await StartedService.start({ runtime: 'docker', environment: { ...engine.environment, ...log } });
  });
  afterAll(async () => {
    await service?.dispose();
    await eventStore?.stop();
    await engine?.close();
  });

  it('leaves nothing of its output behind a minute after it was deleted', async () => {
    const deleted = await agent();
    const kept = await agent();
    await prints(deleted, CANARY);
    await prints(kept, 'what the other one printed');
    await service.call('POST', `/api/agents/${deleted}/chat`, { message: 'flood with lines as fast as they go' });
    await until('much of it is in the log', async () => ((await linesOf(deleted, 'limit=1000')).length === 1_000 ? true : undefined));
    const url = await databaseOf(service);
    const found = async (text: string) => (await dump(url)).filter(([, row]) => row.includes(text)).map(([table]) => table);
    const isInLog = () => eventStore.log.records.some(({ data }) => Buffer.from(data).includes(CANARY));
    expect((await found(CANARY)).filter((table) => table === 'es_log_event')).toHaveLength(kind === 'postgres' ? 1 : 0);
    expect(isInLog()).toBe(kind === 'eventstoredb');

    expect((await service.call('DELETE', `/api/v1/agents/${deleted}`)).status).toBe(204);
    await until('nothing of it is in the database', async () => ((await found(CANARY)).length === 0 ? true : undefined), {
      timeoutMs: REMOVED_WITHIN_MS,
    });
    const entries = async () => (await found(deleted)).filter((table) => /^(log_|drained_)/.test(table));
    await until('no entry of its log is left', async () => ((await entries()).length === 0 ? true : undefined), {
      timeoutMs: REMOVED_WITHIN_MS,
    });
    await expectEqualToTheLog();
    // EventStoreDB deletes truncated events at its next scavenge.
    eventStore.log.scavenge();
    expect(isInLog()).toBe(false);
    await expectEqualToTheLog();
    expect(await linesOf(kept, 'q=other')).toEqual(['what the other one printed']);
  });

  async function agent(): Promise<string> {
    const body = { name: 'printer', image: 'docker', image_name: IMAGE };
    const made = await service.call('POST', '/api/v1/provision', body, { prefer: 'wait=60' });
    expect(made.body).toMatchObject({ status: 'active' });
    return made.body.agent_id;
  }

  async function prints(agentId: string, line: string): Promise<void> {
    await service.call('POST', `/api/agents/${agentId}/chat`, { message: `print ${line}` });
    await until('the line is in the log', async () =>
      (await linesOf(agentId, `q=${encodeURIComponent(line)}`)).length > 0 ? true : undefined,
    );
  }

  async function linesOf(agentId: string, query: string): Promise<string[]> {
    const { body } = await service.call('GET', `/api/v1/agents/${agentId}/logs?${query}`);
    return (body as { message: string }[]).map(({ message }) => message);
  }

  /** Asserts that the administrator's comparison finds the read models of output equal to the log. */
  async function expectEqualToTheLog(): Promise<void> {
    const { email, password } = service.firstRun;
    const session = (await service.call('POST', '/api/auth/login', { email, password })).body.session_token;
    const headers = { authorization: `Bearer ${session}` };
    for (const readModel of ['log_lines', 'log_journal']) {
      const { body } = await service.call('POST', `/api/admin/projections/${readModel}/verify`, undefined, headers);
      expect(body).toMatchObject({ equal: true });
    }
  }
});
