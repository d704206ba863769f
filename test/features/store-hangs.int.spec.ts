import { AgentFixture } from '../support/agent-fixture.ts';
import { somePrefix } from '../support/eventstoredb/location.ts';
import { FakeEventStoreDb } from '../support/eventstoredb/fake-eventstoredb.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';
import { untilTrue } from '../support/until.ts';

/** The longest times of a read that docs/guides/eventstoredb.md and docs/reference/errors.md promise, in milliseconds. */
const READ_MS_MAX = 8_000;
const BEHIND_MS_MAX = 5_000;
/** The longest time that a write waits for its turn, which is promised there, too. */
const TURN_MS_MAX = 3_000;
/** The time by which a busy machine may make them longer, in milliseconds. */
const ALLOWANCE_MS = 8_000;

/** Two nodes with one log: while the first hangs, the replica that uses the other works. */
let hanging: FakeEventStoreDb;
let working: FakeEventStoreDb;
let one: TestServer;
let two: TestServer;
let agentId: string;

beforeAll(async () => {
  hanging = await FakeEventStoreDb.start();
  working = await FakeEventStoreDb.start(hanging.log);
  const common = { MOORING_MASTER_KEY: 'ab'.repeat(32), EVENT_STORE: 'eventstoredb', EVENTSTORE_PREFIX: somePrefix() };
  one = await startFeatureServer({ ...agentFeatures, environment: { ...common, EVENTSTORE_URL: hanging.url } });
  const second = { ...common, DATABASE_URL: one.databaseUrl, EVENTSTORE_URL: working.url };
  two = await startFeatureServer({ ...agentFeatures, environment: second });
  const bed = new AgentFixture(two);
  await bed.account('acme', 100);
  agentId = await bed.created('acme');
  await untilTrue(async () => listed(await agents()).includes(agentId));
});
afterEach(recover);
afterAll(async () => {
  await two?.close();
  await one?.close();
  await working?.stop();
  await hanging?.stop();
});

function recover(): void {
  Object.assign(hanging, { onRead: () => 'ok', onAppend: () => 'ok', subscriptions: 'ok' });
  hanging.dropSubscriptions();
}

const agents = () => one.request('GET', '/api/agents?limit=200', { credential: 'mk_acme' });
const listed = ({ json }: TestResponse) => (json as { agent_id: string }[]).map(({ agent_id }) => agent_id);

/** Returns the answer to a read of the agents, and the time that it took, in milliseconds. */
async function timedRead(): Promise<{ answer: TestResponse; took: number }> {
  const asked = performance.now();
  const answer = await agents();
  return { answer, took: performance.now() - asked };
}

/** Asserts that reads of five callers who ask at once show what was heard before, within the documented time. */
async function expectReadsInTime(): Promise<void> {
  const reads = await Promise.all(Array.from({ length: 5 }, timedRead));
  for (const { answer, took } of reads) {
    expect(answer.status).toBe(200);
    expect(listed(answer)).toContain(agentId);
    expect(took).toBeLessThan(READ_MS_MAX + ALLOWANCE_MS);
  }
}

function hang(faults: Partial<Pick<FakeEventStoreDb, 'onRead' | 'onAppend'>>): void {
  hanging.silenceSubscriptions();
  Object.assign(hanging, { subscriptions: 'silent', ...faults });
}

describe('a read while the event store hangs', () => {
  it('shows what was heard before, within the documented time, however many callers ask at once', async () => {
    hang({ onRead: () => 'silent' });
    await expectReadsInTime();
  });

  it('takes no longer when hundreds of writes hang before it, most of which are refused at once', async () => {
    let hung = 0;
    hang({ onAppend: () => ((hung += 1), 'silent') });
    const bed = new AgentFixture(one);
    // More of them than the connection carries at a time, so that the others wait for their turn.
    const began = performance.now();
    const refusedAfter = () => performance.now() - began;
    const writes = Array.from({ length: 300 }, () => bed.created('acme').then(() => Infinity, refusedAfter));
    await untilTrue(() => hung >= 64);
    hanging.onRead = () => 'silent';
    await expectReadsInTime();
    recover();
    const refused = await Promise.all(writes);
    expect(refused.filter((ms) => ms < TURN_MS_MAX + ALLOWANCE_MS).length).toBeGreaterThan(writes.length / 2);
  });

  it('is refused as behind if the store tells of newer events that it does not hand over', async () => {
    hang({ onRead: (direction) => (direction === 'backwards' ? 'ok' : 'silent') });
    const newer = await new AgentFixture(two).created('acme');
    const { answer, took } = await timedRead();
    expect(answer).toMatchObject({ status: 503, json: { code: 'read_model_behind' } });
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(took).toBeLessThan(BEHIND_MS_MAX + ALLOWANCE_MS);
    recover();
    await untilTrue(async () => listed(await agents()).includes(newer));
  });
});
