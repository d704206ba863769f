import { v7 as uuidv7 } from 'uuid';

import { AdminModule } from '../../src/features/admin/admin.module.ts';
import { BuildLog } from '../../src/features/deployments/records/build-log.ts';
import { EventStore, type NewEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { PAGE_BYTES_MAX } from '../../src/kernel/limits/page-bytes.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';

/** The longest line of a log. Each of its characters is six bytes of JSON. */
const LINE = '\u0001'.repeat(4_000);
const LINES = 300;
const VALUES = 60;

/** An item of any of the lists. */
interface Item {
  type: string;
  data: { value: string };
  source: string;
  message: string;
}

let server: TestServer;
let bed: AgentFixture;

beforeAll(async () => {
  const running = runningFeatures(FaultyRuntimeModule.forTest(() => undefined));
  server = await startFeatureServer({ ...running, modules: [...running.modules, AdminModule] });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});
afterAll(() => server?.close());

const get = (path: string, credential = 'mk_acme') => server.request('GET', path, { credential });
const nextOf = (answer: TestResponse) => /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];

/** Reads the list from page to page. Expects that each page is as large as it may be, but for one more item. */
async function read(path: string, credential?: string): Promise<{ items: Item[]; pages: number }> {
  const items: Item[] = [];
  let pages = 0;
  for (let next: string | undefined = path; next !== undefined; pages += 1) {
    const page: TestResponse = await get(next, credential);
    expect(page.status).toBe(200);
    expect(page.text.length).toBeLessThan(PAGE_BYTES_MAX + 6 * LINE.length + 1_000);
    items.push(...page.json);
    next = nextOf(page);
  }
  return { items, pages };
}

/** Stores the events in chunks, as the parts of the service do that write them. */
async function store(stream: string, type: string, data: NewEvent['data'][]): Promise<void> {
  const metadata = { actor: { kind: 'system' as const, id: 'test', name: 'test' }, account_id: null, request_id: null, causation_id: null };
  const events = server.app.get(EventStore, { strict: false });
  for (const [index, each] of data.entries())
    await events.append(stream, index === 0 ? 'no_stream' : index - 1, [
      { id: uuidv7(), type, schemaVersion: 1, data: each, metadata: { ...metadata, ip: null } },
    ]);
}

describe('a list whose items are large', () => {
  it('has pages of a megabyte, whatever the limit: histories, the audit, and the log as administrators see it', async () => {
    const agentId = await bed.created('acme');
    for (let index = 0; index < VALUES; index += 1)
      await server.request('POST', `/api/v1/agents/${agentId}/env`, {
        credential: 'mk_acme',
        json: { key: 'LARGE', value: `${index} ${'x'.repeat(32_000)}` },
      });
    const of = (items: Item[]) => items.filter(({ type }) => type === 'VariableSet').map(({ data }) => Number(data.value.split(' ', 1)[0]));
    const all = Array.from({ length: VALUES }, (_, index) => index);
    for (const [path, credential] of [
      [`/api/v1/agents/${agentId}/history?limit=200`],
      [`/api/v1/audit?limit=200`],
      [`/api/admin/events?limit=200`, 'ms_root'],
    ] as const) {
      const { items, pages } = await read(path, credential);
      expect({ path, values: of(items) }).toEqual({ path, values: all });
      expect(pages).toBe(2);
    }
    const { items } = await read('/api/v1/audit?limit=200&order=desc');
    expect(of(items)).toEqual(all.toReversed());
  });

  it('has pages of a megabyte of an agent’s output', async () => {
    const agentId = await bed.created('acme');
    const lines = Array.from({ length: LINES }, (_, index) => ({ t: new Date().toISOString(), l: 'info', m: `${index} ${LINE}` }));
    const chunks = Array.from({ length: LINES / 20 }, (_, index) => lines.slice(index * 20, index * 20 + 20));
    const total = (index: number) => ({ cursor: { generation: 1, time: '2026-03-01T12:00:00.000Z', count: 1 }, total: index });
    await store(
      `log-${agentId}`,
      'LogLinesCaptured',
      chunks.map((each, index) => ({ lines: each, ...total((index + 1) * 20) })),
    );
    const { items, pages } = await read(`/api/v1/agents/${agentId}/logs?limit=1000`);
    const numbers = items.filter(({ source }) => source === 'agent').map(({ message }) => Number(message.split(' ', 1)[0]));
    expect(numbers.toSorted((a, b) => a - b)).toEqual(lines.map((_, index) => index));
    expect(pages).toBe(7);
  });

  it('has the last lines of build logs that are larger together, and says where the others are', async () => {
    const agentId = await bed.created('acme');
    const ids: string[] = [];
    for (const lines of [1, LINES, 1]) {
      const deployed = await server.request('POST', `/api/v1/agents/${agentId}/deploy`, {
        credential: 'mk_acme',
        headers: { prefer: 'wait=60' },
      });
      const id = deployed.json.deployment_id as string;
      const log = new BuildLog(server.app.get(EventStore, { strict: false }), { id, agentId, accountId: 'acme' }, []);
      for (let line = 0; line < lines; line += 1) log.line(`line ${line} ${LINE}`);
      await log.flush();
      ids.unshift(id);
    }
    const list = await get(`/api/v1/agents/${agentId}/deployments`);
    const [newest, large, oldest] = list.json as { id: string; build_log: string }[];
    expect([newest?.id, large?.id, oldest?.id]).toEqual(ids);
    expect(list.text.length).toBeLessThan(PAGE_BYTES_MAX + 10_000);
    expect(newest?.build_log).toContain('line 0 ');
    const [first, ...others] = large?.build_log.split('\n') ?? [];
    expect(first).toContain(`GET /api/v1/agents/${agentId}/deployments/${ids[1]}/log`);
    expect(others.at(-1)).toContain(`line ${LINES - 1} `);
    expect(oldest?.build_log).toContain('[Lines are left out here.');
    const whole = await get(`/api/v1/agents/${agentId}/deployments/${ids[1]}/log`);
    expect(whole.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(whole.text.split('\n').filter((line) => line.startsWith('line '))).toHaveLength(LINES);
  });
});
