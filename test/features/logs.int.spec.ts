import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';

import { v7 as uuidv7 } from 'uuid';

import { LogTail } from '../../src/features/logs/entries/log-tail.service.ts';
import { LineBound } from '../../src/features/logs/retention/line-bound.ts';
import { OutputRetentionSaga } from '../../src/features/logs/retention/output-retention.saga.ts';
import { LogRetention } from '../../src/features/logs/entries/log-entries.projection.ts';
import type { LogEntry } from '../../src/features/logs/entries/logs.table.ts';
import type { CapturedLine, LogLevel } from '../../src/features/logs/output/logs.events.ts';
import { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { ReadModels } from '../../src/eventsourcing/projections/projection.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { operate } from '../support/log.ts';
import { until } from '../support/until.ts';
import { logEvents } from '../../src/features/logs/index.ts';
import { LogsModule } from '../../src/features/logs/logs.module.ts';
import { LOG_JOURNAL } from '../../src/features/logs/entries/logs.projection.ts';

const AT = '2026-03-01T12:00:00.000Z';

let server: TestServer;
let bed: AgentFixture;

/** The hourly removal of old output, whose first turn may come at any time, would take the lines of these tests. */
const hourly = jest.spyOn(OutputRetentionSaga.prototype, 'resync').mockResolvedValue([]);

beforeAll(async () => {
  server = await startFeatureServer({
    modules: [FaultyRuntimeModule.forTest(() => undefined), ...agentFeatures.modules, LogsModule],
    definitions: [...agentFeatures.definitions, ...Object.values(logEvents)],
  });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
  await bed.account('other', 100);
});

afterAll(async () => {
  await server?.close();
  hourly.mockRestore();
});

const inside = <T>(part: abstract new (...parts: never[]) => T): T => server.app.get(part as never, { strict: false });
const line = (m: string, l: LogLevel = 'info', t = AT): CapturedLine => ({ t, l, m });

/** Appends events as a capture of the agent's output does. */
class Output {
  private revision = -1;
  /** The number of lines up to the last event. */
  total = 0;

  constructor(readonly agentId: string) {}

  async says(...lines: CapturedLine[]): Promise<void> {
    for (let from = 0; from < lines.length; from += 200) {
      const batch = lines.slice(from, from + 200);
      const metadata = {
        actor: { kind: 'system' as const, id: 'logs', name: 'logs' },
        account_id: null,
        request_id: null,
        causation_id: null,
        ip: null,
      };
      const before = this.total;
      this.total += batch.length;
      const data = { lines: batch, cursor: { generation: 1, time: AT, count: 1 }, total: this.total };
      const event = { id: uuidv7(), type: 'LogLinesCaptured', schemaVersion: 1, data, metadata };
      const store = inside(EventStore);
      this.revision = (await store.append(`log-${this.agentId}`, this.revision < 0 ? 'no_stream' : this.revision, [event])).revision;
      await inside(LineBound).enforce(`log-${this.agentId}`, this.revision, before, this.total);
    }
  }

  async shown(): Promise<void> {
    await inside(ReadModels).waitFor('log_lines', await inside(EventStore).head('log'));
    await inside(ReadModels).waitFor('log_journal', await inside(EventStore).head('core'));
  }
}

async function output(...lines: CapturedLine[]): Promise<Output> {
  const made = new Output(await bed.created('acme'));
  await made.says(...lines);
  await made.shown();
  return made;
}

const get = (path: string, credential = 'mk_acme') => server.request('GET', path, { credential });
const own = (entries: LogEntry[]) => entries.filter(({ source }) => source === 'agent').map(({ message }) => message);
const of = async (agentId: string, query: string) => own((await get(`/api/agents/${agentId}/logs?${query}`)).json as LogEntry[]);

describe('an agent’s log', () => {
  it('shows the agent’s output and its lifecycle events, the same on both APIs', async () => {
    const { agentId } = await output(line('one'), line('two', 'error'));
    const answer = await get(`/api/agents/${agentId}/logs`);
    expect(answer).toMatchObject({ status: 200 });
    expect(answer.json).toEqual([
      { id: expect.any(String), level: 'info', source: 'agent', message: 'one', timestamp: AT },
      { id: expect.any(String), level: 'error', source: 'agent', message: 'two', timestamp: AT },
      { id: expect.any(String), level: 'info', source: 'system', message: expect.stringMatching(/\.$/), timestamp: expect.any(String) },
    ]);
    expect((await get(`/api/v1/agents/${agentId}/logs`)).json).toEqual(answer.json);
  });

  it('is filtered by level, time and text', async () => {
    const { agentId } = await output(
      line('early bird', 'info', '2026-03-01T11:59:59.999Z'),
      line('Low on FUEL', 'warning'),
      line('100% _done_', 'error', '2026-03-01T12:00:00.001Z'),
      line('late', 'info', '2026-03-01T13:00:00.000Z'),
    );
    expect(await of(agentId, 'level=warning')).toEqual(['Low on FUEL']);
    expect(await of(agentId, 'q=fuel')).toEqual(['Low on FUEL']);
    expect(await of(agentId, `q=${encodeURIComponent('% _')}`)).toEqual(['100% _done_']);
    expect(await of(agentId, 'since=2026-03-01T12:00:00Z')).toEqual(['Low on FUEL', '100% _done_', 'late']);
    expect(await of(agentId, 'until=2026-03-01T12:00:00Z')).toEqual(['early bird']);
    expect(await of(agentId, 'since=2026-03-01T12:00:00&until=2026-03-01T12:00:00.001')).toEqual(['Low on FUEL']);
    expect(await of(agentId, 'since=2026-03-01T14:00:00%2B01:00')).toEqual(['late']);
    expect(await of(agentId, 'since=2026-03-01&until=2026-03-02&level=info')).toEqual(['early bird', 'late']);
    for (const query of ['level=loud', 'since=yesterday', 'until=2026-02-30', 'since=2026-W09', 'limit=0', 'limit=1001', 'cursor=x', 'a=b'])
      expect([query, (await get(`/api/agents/${agentId}/logs?${query}`)).json.code]).toEqual([query, 'invalid_request']);
  });

  it('has the members of JSON lines as fields, in which text is found, whatever its case', async () => {
    const f = { reqId: 'r-1', err: { message: 'x is "undefined"', stack: 'TypeError: x\n  at y' } };
    const { agentId } = await output({ ...line('request failed', 'error'), f }, line('other'));
    const shown = { id: expect.any(String), level: 'error', source: 'agent', message: 'request failed', timestamp: AT, fields: f };
    expect((await get(`/api/agents/${agentId}/logs?level=error`)).json).toEqual([shown]);
    for (const q of ['REQID', 'R-1', 'is "UNDEFINED"', 'x\n  at y'])
      expect([q, await of(agentId, `q=${encodeURIComponent(q)}`)]).toEqual([q, ['request failed']]);
    expect(await of(agentId, 'q=nowhere')).toEqual([]);
  });

  it('is read backwards page by page, without lost or repeated lines although all have the same time', async () => {
    const texts = Array.from({ length: 1_203 }, (_, index) => `line ${index}`);
    const { agentId } = await output(...texts.map((text) => line(text)));
    const pages: LogEntry[][] = [];
    let path: string | undefined = `/api/v1/agents/${agentId}/logs?limit=100`;
    while (path !== undefined) {
      const page = await get(path);
      pages.unshift(page.json as LogEntry[]);
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect(pages).toHaveLength(13);
    expect(own(pages.flat())).toEqual(texts);
  });

  it('stores any output of programs, including NUL and halves of characters', async () => {
    const { agentId } = await output(line('a\0b\ud800c'), line('\u001b[31mred\u001b[0m'), line(''));
    expect(await of(agentId, 'limit=10')).toEqual(['a\uFFFDb\uFFFDc', '\u001b[31mred\u001b[0m', '']);
    expect((await get(`/api/agents/${agentId}/logs?q=%00`)).status).toBe(400);
  });

  it('is visible only to the agent’s own account, and ends with the agent', async () => {
    const { agentId } = await output(line('mine'));
    for (const surface of ['/api/agents', '/api/v1/agents'])
      for (const accept of ['application/json', 'text/event-stream']) {
        const answer = await server.request('GET', `${surface}/${agentId}/logs`, { credential: 'mk_other', headers: { accept } });
        expect(answer).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
      }
    await bed.says(agentId, { type: 'DeleteAgent', accountId: 'acme' });
    await bed.says(agentId, { type: 'RecordDeleted' });
    expect(await get(`/api/agents/${agentId}/logs`)).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
  });

  it('is kept for seven days, both output and lifecycle events', async () => {
    const old = new Date(Date.now() - 7 * 86_400_000 - 60_000).toISOString();
    const recent = new Date(Date.now() - 6 * 86_400_000).toISOString();
    const { agentId } = await output(line('too old', 'info', old), line('recent', 'info', recent));
    await operate(server.databaseUrl, `update ${LOG_JOURNAL} set timestamp = $2 where agent_id = $1`, [agentId, old]);
    await inside(LogRetention).trim();
    const left = (await get(`/api/agents/${agentId}/logs`)).json as LogEntry[];
    expect(left.map(({ message }) => message)).toEqual(['recent']);
  });

  it('is kept for 100 000 lines: the oldest are deleted when a thousand more are written', async () => {
    const { agentId } = await output(line('other'));
    const much = await output(line('oldest'), ...Array.from({ length: 300 }, (_, index) => line(`early ${index}`)));
    much.total = 100_900;
    await much.says(...Array.from({ length: 99 }, () => line('at the bound')));
    const messages = async () => own((await get(`/api/agents/${much.agentId}/logs?limit=1000`)).json as LogEntry[]);
    await much.shown();
    expect(await messages()).toHaveLength(400);
    await much.says(line('beyond'));
    await much.shown();
    expect(await messages()).toEqual([...Array.from({ length: 99 }, () => 'at the bound'), 'beyond']);
    const revisions: number[] = [];
    for await (const { revision } of inside(EventStore).readStream(`log-${much.agentId}`)) revisions.push(revision);
    expect(revisions).toEqual([2, 3]);
    expect(await of(agentId, 'limit=10')).toEqual(['other']);
  });

  it('keeps 100 000 lifecycle entries of an agent', async () => {
    const { agentId } = await output();
    await inside(LogRetention).trim();
    const rows = `select 's9' || lpad(n::text, 23, '0'), '${agentId}', 'info', 'system', 'entry ' || n, now() from generate_series(1, 100010) n`;
    await operate(server.databaseUrl, `insert into ${LOG_JOURNAL} (id, agent_id, level, source, message, timestamp) ${rows}`);
    await inside(LogRetention).trim();
    const count = `select count(*)::int as entries, min(id) as first from ${LOG_JOURNAL} where agent_id = $1`;
    expect(await operate(server.databaseUrl, count, [agentId])).toEqual([{ entries: 100_000, first: `s9${'11'.padStart(23, '0')}` }]);
  });
});

/** Requests a log as a stream of events, on its own connection. */
function asking(agentId: string, query = ''): ClientRequest {
  const headers = { authorization: 'Bearer mk_acme', accept: 'text/event-stream' };
  const asked = request(`${server.url}/api/agents/${agentId}/logs?${query}`, { agent: false, headers });
  asked.on('error', () => undefined);
  asked.end();
  return asked;
}

/** A caller who follows a log. */
class Follower {
  readonly entries: LogEntry[] = [];

  private constructor(private readonly answer: IncomingMessage) {
    let rest = '';
    answer.setEncoding('utf8');
    answer.on('error', () => undefined);
    answer.on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\n\n');
      rest = parts.pop() ?? '';
      for (const part of parts) {
        const [, written] = /^data: (.*)$/m.exec(part) ?? [];
        if (written !== undefined) this.entries.push(JSON.parse(written) as LogEntry);
      }
    });
  }

  static async of(agentId: string, query = ''): Promise<Follower> {
    const [answer] = (await once(asking(agentId, query), 'response')) as [IncomingMessage];
    expect(answer.headers['content-type']).toContain('text/event-stream');
    return new Follower(answer);
  }

  saw(count: number): Promise<string[]> {
    return until(`${count} lines have come`, () => (own(this.entries).length >= count ? own(this.entries) : undefined));
  }

  leave(): void {
    this.answer.destroy();
  }
}

const nobody = () => until('no reader is left', () => (inside(LogTail).size === 0 ? true : undefined));

describe('following a log', () => {
  it('sends existing entries, then new ones, each once, lifecycle entries included', async () => {
    const talker = await output(line('stands'));
    const follower = await Follower.of(talker.agentId);
    await talker.says(line('comes'), line('and goes'));
    await bed.says(talker.agentId, { type: 'ConfigureAgent', accountId: 'acme', changes: { name: 'renamed' } });
    expect(await follower.saw(3)).toEqual(['stands', 'comes', 'and goes']);
    await until('the change is told', () => (follower.entries.filter(({ source }) => source === 'system').length === 2 ? true : undefined));
    expect(new Set(follower.entries.map(({ id }) => id)).size).toBe(follower.entries.length);
    follower.leave();
    await nobody();
  });

  it('sends every line once to each caller that connects while the agent prints', async () => {
    const talker = await output();
    const enough = new AbortController();
    let printed = 0;
    const printing = (async () => {
      while (!enough.signal.aborted) await talker.says(line(`line ${printed++}`));
    })();
    const followers: Follower[] = [];
    for (let count = 0; count < 15; count++) followers.push(await Follower.of(talker.agentId, 'limit=1000'));
    enough.abort();
    await printing;
    const all = Array.from({ length: printed }, (_, index) => `line ${index}`);
    for (const follower of followers) {
      await until('the last line has come', () => (own(follower.entries).at(-1) === all.at(-1) ? true : undefined));
      const seen = await follower.saw(Math.min(all.length, 999));
      expect(seen).toEqual(all.slice(all.indexOf(seen[0] as string)));
      follower.leave();
    }
    await nobody();
  });

  it('sends only the requested entries, and only those of the agent', async () => {
    const [talker, other] = [await output(line('old error', 'error')), await output()];
    const follower = await Follower.of(talker.agentId, 'level=error&q=ERROR');
    await other.says(line('another’s error', 'error'));
    await talker.says(line('fine'), line('new error', 'error'), line('odd', 'error'), line('last error', 'error'));
    expect(await follower.saw(3)).toEqual(['old error', 'new error', 'last error']);
    follower.leave();
    await nobody();
  });

  it('ends for callers that do not read', async () => {
    const talker = await output();
    const socket = await new Promise<Socket>((resolve) => {
      const made = connect(Number(new URL(server.url).port), '127.0.0.1', () => resolve(made));
    });
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const path = `/api/agents/${talker.agentId}/logs`;
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer mk_acme\r\naccept: text/event-stream\r\n\r\n`);
    await until('it follows', () => (inside(LogTail).size === 1 ? true : undefined));
    const long = Array.from({ length: 2_000 }, () => line('x'.repeat(2_000)));
    for (let times = 0; times < 20 && inside(LogTail).size > 0; times++) await talker.says(...long);
    await nobody();
    socket.resume();
    await closed;
  });

  it('leaves no reader open if its caller disconnected before it began', async () => {
    const talker = await output(line('stands'));
    for (let count = 0; count < 20; count++) {
      const asked = asking(talker.agentId);
      const closed = new Promise((resolve) => asked.once('close', resolve));
      setTimeout(() => asked.destroy(), count);
      await closed;
    }
    await nobody();
  });

  it('adds no reader whose caller has already left', async () => {
    const talker = await output(line('stands'));
    const gone = new AbortController();
    gone.abort();
    await inside(LogTail).follow(talker.agentId, gone.signal, () => undefined);
    expect(inside(LogTail).size).toBe(0);
    const follower = await Follower.of(talker.agentId);
    expect(await follower.saw(1)).toEqual(['stands']);
    follower.leave();
    await nobody();
  });
});
