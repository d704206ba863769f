import { QueryBus } from '@nestjs/cqrs';

import { EveryAgent } from '../../src/features/agents/index.ts';
import { Activity, EngineView } from '../../src/sandboxes/services.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { EventStore, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { FollowedOutput } from '../support/followed-output.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

let talk: ChatFixture;

beforeAll(async () => void (talk = await startChatFixture({})));
afterAll(() => talk?.server.close());
afterEach(async () => {
  for (const { command_id } of (await list()).json) await at('DELETE', command_id as string);
  jest.restoreAllMocks();
});

const root = (agentId = talk.agentId) => `/api/agents/${agentId}/commands`;
const at = (method: string, commandId: string, action = '', json?: unknown, credential = 'mk_acme') =>
  talk.ask(method, `${root()}/${commandId}${action}`, json, credential);
const list = () => talk.ask('GET', root());
const sleep = () => talk.ask('POST', `/api/agents/${talk.agentId}/sleep`);
const agentStatus = async () => (await talk.ask('GET', `/api/agents/${talk.agentId}`)).json.status as string;
const follow = (commandId: string, from: number | null = null) =>
  new FollowedOutput(`${talk.server.url}${root()}/${commandId}/output`, 'mk_acme', from);

/** Starts a command and returns its id. */
async function started(command: string | string[], more: object = {}): Promise<string> {
  const answer = await talk.ask('POST', root(), { command, ...more });
  expect(answer).toMatchObject({ status: 201, json: { status: 'running', started_at: expect.any(String) } });
  return answer.json.command_id as string;
}

/** Waits until the command has ended, and returns it. */
function ended(commandId: string) {
  return until('the command has ended', async () => {
    const { json } = await at('GET', commandId);
    return json.status === 'running' ? undefined : (json as Record<string, unknown>);
  });
}

/** Waits until the command has printed the text, and returns all that it printed. */
function printed(commandId: string, text: string): Promise<string> {
  return until(`it printed ${text}`, async () => {
    const answer = await at('GET', commandId, '/output');
    return answer.text.includes(text) ? answer.text : undefined;
  });
}

async function recorded(): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of talk.server.app.get(EventStore, { strict: false }).readStream(`commands-${talk.agentId}`)) events.push(event);
  return events;
}

function input(commandId: string, bytes: string, query = '', headers: Record<string, string> = {}) {
  return talk.server.request('POST', `${root()}/${commandId}/stdin${query}`, {
    credential: 'mk_acme',
    body: bytes,
    headers: { 'content-type': 'application/octet-stream', ...headers },
  });
}

describe('a command that goes on', () => {
  it('is answered at once, and its exit code and its output are there when it has ended', async () => {
    const id = await started('echo one; echo two >&2; exit 3', { name: 'numbers' });
    expect(await ended(id)).toEqual({
      command_id: id,
      name: 'numbers',
      command: 'echo one; echo two >&2; exit 3',
      cwd: null,
      status: 'exited',
      exitCode: 3,
      started_at: expect.any(String),
      ended_at: expect.any(String),
      keep_awake_until: null,
      output_bytes: 8,
      dropped_bytes: 0,
    });
    const output = await at('GET', id, '/output');
    expect([output.status, output.text, output.headers.get('x-next-offset'), output.headers.get('x-offset')]).toEqual([
      200,
      'one\ntwo\n',
      '8',
      '0',
    ]);
  });

  it('has the requested folder, and the requested variables in addition to those of its agent', async () => {
    expect((await talk.ask('POST', `/api/agents/${talk.agentId}/files/mkdir`, { path: 'work' })).status).toBe(201);
    const id = await started('pwd; echo "$COLOR $PORT"', { cwd: 'work', env: { COLOR: 'green' } });
    await ended(id);
    expect((await at('GET', id, '/output')).text).toMatch(/\/work\ngreen \d+\n$/);
    expect((await at('GET', id)).json).toMatchObject({ cwd: 'work' });
  });

  it('is read from any offset, in parts', async () => {
    const id = await started(['printf', '%s', 'abcdefghij']);
    await ended(id);
    const part = await at('GET', id, '/output?offset=2&limit=3');
    expect([part.text, part.headers.get('x-next-offset')]).toEqual(['cde', '5']);
    const none = await at('GET', id, '/output?offset=10');
    expect([none.status, none.text, none.headers.get('x-next-offset')]).toEqual([200, '', '10']);
  });

  it('is followed as it prints, by as many as want to, and resumed after a reader went away', async () => {
    const id = await started('echo first; read line; echo "second $line"; exit 4');
    const leaver = follow(id);
    await until('the first line came', () => (leaver.text === 'first\n' ? true : undefined));
    expect(leaver.last).toEqual({ id: 6, event: 'output', data: { offset: 0, text: 'first\n' } });
    await leaver.leave();
    const stayer = follow(id, leaver.next);
    expect((await input(id, 'x\n')).status).toBe(204);
    await stayer.over;
    expect(stayer.text).toBe('second x\n');
    expect(stayer.last).toEqual({ id: 15, event: 'end', data: { status: 'exited', exitCode: 4, output_bytes: 15, dropped_bytes: 0 } });
    const late = follow(id);
    await late.over;
    expect([late.text, late.last?.event]).toEqual(['first\nsecond x\n', 'end']);
  });

  it('keeps the newest MiB of its output, and reports how much it dropped', async () => {
    const id = await started('yes | head -c 3000000');
    const dropped = 3_000_000 - 1_048_576;
    expect(await ended(id)).toMatchObject({ exitCode: 0, output_bytes: 3_000_000, dropped_bytes: dropped });
    const output = await at('GET', id, '/output?limit=10');
    expect([output.headers.get('x-offset'), output.headers.get('x-next-offset')]).toEqual([String(dropped), String(dropped + 10)]);
  });

  it('gets input until that is closed', async () => {
    const id = await started(['cat']);
    expect((await input(id, 'one ')).status).toBe(204);
    expect((await input(id, 'two', '?close=true')).status).toBe(204);
    expect(await ended(id)).toMatchObject({ status: 'exited', exitCode: 0 });
    expect((await at('GET', id, '/output')).text).toBe('one two');
    expect(await input(id, 'three')).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
  });

  it('gets the input of one Idempotency-Key once', async () => {
    const id = await started(['cat']);
    for (let n = 0; n < 2; n += 1) expect((await input(id, 'once\n', '', { 'idempotency-key': 'input-once' })).status).toBe(204);
    await input(id, '', '?close=true');
    await ended(id);
    expect((await at('GET', id, '/output')).text).toBe('once\n');
  });

  it('gets signals, and can end by a signal', async () => {
    const trap = await started(`trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done`);
    await printed(trap, 'ready');
    expect((await at('POST', trap, '/signal', { signal: 'SIGUSR1' })).status).toBe(204);
    expect(await ended(trap)).toMatchObject({ status: 'exited', exitCode: 9 });
    const stays = await started(['sleep', '300']);
    expect((await at('POST', stays, '/signal', { signal: 'SIGKILL' })).status).toBe(204);
    expect(await ended(stays)).toMatchObject({ status: 'killed', exitCode: 137 });
    expect(await at('POST', stays, '/signal', { signal: 'SIGTERM' })).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
    expect(await at('POST', stays, '/signal', { signal: 'SIGNONSENSE' })).toMatchObject({ status: 400, json: { code: 'invalid_request' } });
  });

  it('is killed with what it started when it is deleted, and then unknown', async () => {
    const id = await started('sleep 300.75 & echo up; wait');
    await printed(id, 'up');
    expect((await at('DELETE', id)).status).toBe(204);
    for (const [method, action] of [
      ['GET', ''],
      ['GET', '/output'],
      ['DELETE', ''],
    ] as const)
      expect(await at(method, id, action)).toMatchObject({ status: 404, json: { code: 'not_found' } });
    const { stdout } = (await talk.ask('POST', `/api/agents/${talk.agentId}/exec`, { command: 'pgrep -f "^sleep 300.75" || echo none' }))
      .json;
    expect(stdout).toBe('none\n');
  });

  it('is one of at most sixteen at once', async () => {
    const ids = await Promise.all(Array.from({ length: 16 }, () => started(['sleep', '300'])));
    expect(await talk.ask('POST', root(), { command: ['true'] })).toMatchObject({ status: 429, json: { code: 'rate_limited' } });
    expect((await list()).json.map(({ command_id }: { command_id: string }) => command_id).toSorted()).toEqual(ids.toSorted());
    await at('DELETE', ids[0] as string);
    await started(['true']);
  });

  it('is started once for one Idempotency-Key', async () => {
    const once = () =>
      talk.server.request('POST', root(), {
        credential: 'mk_acme',
        json: { command: 'echo x >> started-once' },
        headers: { 'idempotency-key': 'start-once' },
      });
    const [first, second] = [await once(), await once()];
    expect([first.status, second.status, second.json]).toEqual([201, 201, first.json]);
    await ended(first.json.command_id as string);
    expect((await talk.ask('POST', `/api/agents/${talk.agentId}/exec`, { command: ['cat', 'started-once'] })).json.stdout).toBe('x\n');
  });

  it('that can’t run ends with the exit code of a shell', async () => {
    expect(await ended(await started(['no-such-program-here']))).toMatchObject({ status: 'exited', exitCode: 127 });
  });
});

describe('a command in an agent that sleeps', () => {
  it('freezes with its agent, is shown without waking the agent, and continues when its output is read', async () => {
    const id = await started('echo before; read line; echo "after $line"');
    await printed(id, 'before');
    expect((await sleep()).json.status).toBe('sleeping');
    expect((await at('GET', id)).json).toMatchObject({ status: 'running', output_bytes: null, exitCode: null });
    expect((await list()).json).toMatchObject([{ command_id: id, status: 'running' }]);
    expect(await agentStatus()).toBe('sleeping');
    const output = await at('GET', id, '/output');
    expect([output.text, output.headers.get('x-agent-woken')]).toEqual(['before\n', 'true']);
    await input(id, 'awake\n');
    expect(await ended(id)).toMatchObject({ status: 'exited', exitCode: 0 });
    expect((await at('GET', id, '/output')).text).toBe('before\nafter awake\n');
  });

  it('is not followed for longer than that: a reader gets the rest once the agent is awake again', async () => {
    const id = await started('echo before; read line; echo "after $line"');
    const reader = follow(id);
    await until('the first line came', () => (reader.text === 'before\n' ? true : undefined));
    expect((await sleep()).json.status).toBe('sleeping');
    expect(await agentStatus()).toBe('sleeping');
    await input(id, 'awake\n');
    await reader.over;
    expect([reader.text, reader.last?.event]).toEqual(['before\nafter awake\n', 'end']);
  });

  it('has no more to read once all of the output of an ended one was read, so the agent is left asleep', async () => {
    const id = await started('echo done');
    await ended(id);
    expect((await sleep()).json.status).toBe('sleeping');
    expect((await at('GET', id, '/output?offset=5')).text).toBe('');
    expect(await agentStatus()).toBe('sleeping');
    const reader = follow(id, 5);
    await reader.over;
    expect(reader.last).toMatchObject({ event: 'end', data: { exitCode: 0 } });
    expect(await agentStatus()).toBe('sleeping');
  });

  it.each(['restart', 'stop', 'deploy'])('ends with the agent’s container at a %s, and its output is gone', async (action) => {
    const id = await started('echo here; sleep 300');
    await printed(id, 'here');
    const path = action === 'deploy' ? `/api/v1/agents/${talk.agentId}/deploy` : `/api/agents/${talk.agentId}/${action}`;
    const reader = follow(id);
    await until('it is followed', () => (reader.text === 'here\n' ? true : undefined));
    expect((await talk.ask('POST', path)).status).toBe(200);
    expect(await ended(id)).toMatchObject({ status: 'ended_by_sleep', exitCode: null, ended_at: expect.any(String) });
    await reader.over;
    expect(reader.last).toMatchObject({ event: 'end', data: { status: 'ended_by_sleep' } });
    expect(await at('GET', id, '/output')).toMatchObject({ status: 200, text: '' });
    if (action === 'stop') {
      expect(await talk.ask('POST', root(), { command: ['true'] })).toMatchObject({ status: 409, json: { code: 'agent_unavailable' } });
      expect((await talk.ask('POST', `/api/agents/${talk.agentId}/start`)).status).toBe(200);
    }
  });
});

describe('a command with keep_awake', () => {
  it('lets its agent count as used for so long, but no longer than it runs', async () => {
    const keptUntil = async () => {
      const rows = await talk.server.app
        .get(Database, { strict: false })
        .query<{ kept_until: Date | null }>('select kept_until from agent_activity where agent_id = $1', [talk.agentId]);
      return rows[0]?.kept_until?.toISOString() ?? null;
    };
    await started(['cat'], { keep_awake: 60 });
    const id = await started(['cat'], { keep_awake: 3_600 });
    const { keep_awake_until, started_at } = (await at('GET', id)).json;
    expect(Date.parse(keep_awake_until as string) - Date.parse(started_at as string)).toBe(3_600_000);
    expect(await keptUntil()).toBe(keep_awake_until);
    const hourAgo = `update agent_activity set last_active_at = now() - interval '1 hour' where agent_id = $1`;
    // Nothing holds it any more, which would count as a use.
    expect(await talk.server.app.get(Activity, { strict: false }).isHeld(talk.agentId)).toBe(false);
    await talk.server.app.get(Database, { strict: false }).query(hourAgo, [talk.agentId]);
    // The saga that puts idle agents to sleep looks at one agent, and at all of them together.
    const { lastActiveAt } = await talk.server.app
      .get(EngineView, { strict: false })
      .observe({ sandboxId: talk.agentId, started: null }, null);
    const every = await talk.server.app.get(QueryBus, { strict: false }).execute(new EveryAgent(null, 10));
    for (const usedAt of [lastActiveAt, every.find(({ sandboxId }) => sandboxId === talk.agentId)?.lastActiveAt])
      expect(Date.now() - (usedAt?.getTime() ?? 0)).toBeLessThan(60_000);
    await input(id, '', '?close=true');
    await ended(id);
    const shorter = (await list()).json.find(({ status }: { status: string }) => status === 'running').keep_awake_until as string;
    await until('the other one keeps it awake', async () => ((await keptUntil()) === shorter ? true : undefined));
    for (const { command_id } of (await list()).json) await at('DELETE', command_id as string);
    await until('nothing keeps it awake', async () => ((await keptUntil()) === null ? true : undefined));
  });
});

describe('another account', () => {
  it('sees nothing of an agent’s commands, and can do nothing to them', async () => {
    const id = await started(['cat']);
    const routes = [
      ['GET', ''],
      ['POST', '', { command: 'true' }],
      ['GET', `/${id}`],
      ['GET', `/${id}/output`],
      ['POST', `/${id}/signal`, { signal: 'SIGKILL' }],
      ['DELETE', `/${id}`],
    ] as const;
    for (const [method, path, json] of routes)
      expect([path, (await talk.ask(method, `${root()}${path}`, json, 'mk_other')).json]).toMatchObject([
        path,
        { code: 'agent_not_found' },
      ]);
    const stdin = await talk.server.request('POST', `${root()}/${id}/stdin`, {
      credential: 'mk_other',
      body: 'x',
      headers: { 'content-type': 'application/octet-stream' },
    });
    expect(stdin.json).toMatchObject({ code: 'agent_not_found' });
    const reader = new FollowedOutput(`${talk.server.url}${root()}/${id}/output`, 'mk_other');
    await reader.over;
    expect(reader.status).toBe(404);
    expect((await at('GET', id)).json.status).toBe('running');
  });
});

describe('a key with another scope', () => {
  it('can list commands, but not start them, write to them or end them', async () => {
    const id = await started(['cat']);
    expect(await talk.ask('POST', root(), { command: 'true' }, 'mk_acme_provision')).toMatchObject({ status: 403 });
    expect(await at('DELETE', id, '', undefined, 'mk_acme_provision')).toMatchObject({ status: 403 });
    expect(await at('GET', id, '', undefined, 'mk_acme_provision')).toMatchObject({ status: 200 });
  });
});

describe('a request that is not valid', () => {
  it('is refused with what is wrong with it, and nothing is started', async () => {
    const before = (await recorded()).length;
    const fields: [string, object][] = [
      ['command', { command: '' }],
      ['cwd', { command: 'true', cwd: '' }],
      ['cwd', { command: 'true', cwd: 'a\0b' }],
      ['env', { command: 'true', env: { 'not a name': 'x' } }],
      ['env', { command: 'true', env: { PORT: '1' } }],
      ['env', { command: 'true', env: { A: 5 } }],
      ['env', { command: 'true', env: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`A${n}`, ''])) }],
      ['name', { command: 'true', name: '' }],
      ['keep_awake', { command: 'true', keep_awake: 86_401 }],
      ['keep_awake', { command: 'true', keep_awake: 0 }],
      ['unknown', { command: 'true', unknown: 1 }],
    ];
    for (const [field, json] of fields)
      expect([field, await talk.ask('POST', root(), json)]).toMatchObject([field, { status: 400, json: { errors: [{ field }] } }]);
    expect(await recorded()).toHaveLength(before);
    expect(await at('GET', 'no-uuid')).toMatchObject({ status: 404, json: { code: 'not_found' } });
    expect(await at('GET', 'no-uuid', '/output?offset=-1')).toMatchObject({ status: 400 });
  });
});

describe('the stored data of a command', () => {
  it('is who started it and how it ended, and neither its texts, its variables, its input nor its output', async () => {
    const id = await started('cat; echo "canary-$SECRET"', { cwd: '.', name: 'canary-name', env: { SECRET: 'canary-value' } });
    await input(id, 'canary-input', '?close=true');
    await ended(id);
    const events = (await recorded()).filter(({ data }) => data.command_id === id);
    expect(events.map(({ type, metadata: { actor } }) => [type, actor.kind])).toEqual([
      ['AgentCommandStarted', 'api_key'],
      ['AgentCommandInputSent', 'api_key'],
      ['AgentCommandEnded', 'system'],
    ]);
    expect(JSON.stringify(events)).not.toContain('canary');
    const { json: audit } = await talk.ask('GET', '/api/v1/audit?type=AgentCommandStarted&limit=200');
    const item = audit.find(({ data }: { data: object }) => 'command_id' in data && data.command_id === id);
    expect(item).toMatchObject({ summary: expect.stringContaining('Started a command'), data: { command: '••••••••' } });
    expect(talk.server.logLines.join('\n')).not.toContain('canary');
  });
});

describe('a deep sleep', () => {
  it('ends the commands of the agent and removes their output, without waking the agent', async () => {
    const first = talk;
    talk = await startChatFixture({ MOORING_DEEP_SLEEP_AFTER: '0' });
    try {
      const done = await started('echo done');
      await ended(done);
      const id = await started('echo here; sleep 300');
      await printed(id, 'here');
      await sleep();
      expect(await ended(id)).toMatchObject({ status: 'ended_by_sleep', exitCode: null });
      for (const each of [id, done]) expect(await at('GET', each, '/output')).toMatchObject({ status: 200, text: '' });
      expect((await at('GET', done)).json).toMatchObject({ status: 'exited', exitCode: 0, output_bytes: 5 });
      expect(await agentStatus()).toBe('sleeping');
    } finally {
      await talk.server.close();
      talk = first;
    }
  });
});
