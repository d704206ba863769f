import { readdir, readFile } from 'node:fs/promises';

import { EventStore, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

let talk: ChatFixture;

beforeAll(async () => void (talk = await startChatFixture({})));
afterAll(() => talk?.server.close());
afterEach(() => jest.restoreAllMocks());

const exec = (command: unknown, more: object = {}, credential = 'mk_acme') =>
  talk.ask('POST', `/api/agents/${talk.agentId}/exec`, { command, ...more }, credential);

async function recorded(): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of talk.server.app.get(EventStore, { strict: false }).readStream(`exec-${talk.agentId}`)) events.push(event);
  return events;
}

/** Asks for a command, until the signal aborts. */
function ask(command: unknown, signal: AbortSignal, headers: Record<string, string> = {}): Promise<string> {
  return fetch(`${talk.server.url}/api/agents/${talk.agentId}/exec`, {
    method: 'POST',
    headers: { authorization: 'Bearer mk_acme', 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ command }),
    signal,
  }).then((response) => response.text());
}

/** Returns the command lines of all processes; those of agents on the local runtime are among them. */
async function commandsOnThisHost(): Promise<string[]> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(processes.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return lines.map((line) => line.replaceAll('\0', ' '));
}

const failed = async () => (await recorded()).filter(({ type }) => type === 'ExecFailed').map(({ data }) => data.failure);

describe('a command in an agent', () => {
  it('gets the arguments of an array as they are, without a shell', async () => {
    const answer = await exec(['printf', '%s', 'a b;$(id)']);
    expect(answer).toMatchObject({
      status: 200,
      json: { exitCode: 0, stdout: 'a b;$(id)', stderr: '', timedOut: false, truncated: false },
    });
  });

  it('that is a string runs through a shell', async () => {
    expect((await exec('echo $((6 * 7)); echo oh >&2; exit 3')).json).toMatchObject({ exitCode: 3, stdout: '42\n', stderr: 'oh\n' });
  });

  it('has the folder, the variables and the input that it was given', async () => {
    await exec('mkdir -p folder');
    const answer = await exec('pwd; echo "$COLOR"; cat', { cwd: 'folder', env: { COLOR: 'green' }, stdin: 'an input' });
    expect(answer.json.stdout).toMatch(/\/folder\ngreen\nan input$/);
    expect((await exec(['cat'], { stdin: 'x'.repeat(200_000) })).json.stdout).toHaveLength(200_000);
    expect((await exec(['cat'])).json).toMatchObject({ exitCode: 0, stdout: '' });
  });

  it('in a session finds the folder and the variables that the one before left', async () => {
    await exec('mkdir -p folder && cd folder && export COLOR=green && NAME=own', { session: 'work' });
    expect((await exec('pwd; echo "$COLOR $NAME"', { session: 'work' })).json.stdout).toMatch(/\/folder\ngreen own\n$/);
    expect((await exec('pwd; echo "$COLOR"', { session: 'another' })).json.stdout).not.toMatch(/folder|green/);
    expect((await exec('echo "$ONCE"', { session: 'work', env: { ONCE: 'now' } })).json.stdout).toBe('now\n');
    expect((await exec('echo "$ONCE"', { session: 'work' })).json.stdout).toBe('\n');
    expect((await exec('exit 3', { session: 'work' })).json.exitCode).toBe(3);
  });

  it('is killed with its children when its time is over', async () => {
    const begun = performance.now();
    const answer = await exec('sleep 301 & sleep 300', { timeout: 1 });
    expect(answer).toMatchObject({ status: 200, json: { exitCode: 124, timedOut: true } });
    expect(performance.now() - begun).toBeLessThan(20_000);
  });

  it('prints at most 256 KB to both outputs together', async () => {
    const { json } = await exec('yes | head -c 300000; yes | head -c 300000 >&2');
    expect(json).toMatchObject({ exitCode: 0, truncated: true });
    expect(json.stdout.length + json.stderr.length).toBe(256 * 1024);
  });

  it('wakes the agent, and says so', async () => {
    const agent = `/api/agents/${talk.agentId}`;
    expect((await talk.ask('POST', `${agent}/sleep`)).json.status).toBe('sleeping');
    const answer = await exec(['echo', 'awake']);
    expect([answer.status, answer.json.stdout, answer.headers.get('x-agent-woken')]).toEqual([200, 'awake\n', 'true']);
    expect((await exec(['echo', 'awake'])).headers.get('x-agent-woken')).toBeNull();
  });

  it('streams its output as it comes, then its exit code', async () => {
    const response = await fetch(`${talk.server.url}/api/agents/${talk.agentId}/exec`, {
      method: 'POST',
      headers: { authorization: 'Bearer mk_acme', 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ command: 'printf one; printf two >&2; exit 5' }),
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const events = (await response.text()).split('\n\n').filter((frame) => frame.startsWith('event: '));
    expect(events.toSorted()).toEqual([
      'event: exit\ndata: {"exitCode":5,"timedOut":false,"truncated":false}',
      'event: stderr\ndata: {"text":"two"}',
      'event: stdout\ndata: {"text":"one"}',
    ]);
    expect(events.at(-1)).toContain('exit');
  });

  it('is killed when its caller disconnects, also during a stream', async () => {
    for (const accept of ['application/json', 'text/event-stream']) {
      const before = (await failed()).length;
      const caller = new AbortController();
      const asked = ask(`touch ${accept.slice(0, 4)}; sleep 300.25`, caller.signal, { accept });
      await until('the command runs', async () => ((await exec(['cat', accept.slice(0, 4)])).json.exitCode === 0 ? true : undefined));
      caller.abort();
      await expect(asked).rejects.toThrow('aborted');
      await until('the end is recorded', async () => ((await failed()).length > before ? true : undefined));
      expect((await failed()).at(-1)).toBe('canceled');
      expect(await commandsOnThisHost()).not.toContain('sleep 300.25 ');
    }
  });

  it('is one of at most eight at once', async () => {
    const before = (await recorded()).length;
    const callers = new AbortController();
    const asked = Array.from({ length: 8 }, () => ask(['sleep', '100'], callers.signal));
    const ended = Promise.allSettled(asked);
    await until('eight run', async () => ((await recorded()).length === before + 8 ? true : undefined));
    expect(await exec(['true'])).toMatchObject({ status: 429, json: { code: 'rate_limited' } });
    callers.abort();
    await ended;
    await until('one can run again', async () => ((await exec(['true'])).status === 200 ? true : undefined));
  });
});

describe('the log entries of a command', () => {
  it('tells who ran it and how it ended, and not what it was or printed', async () => {
    await exec('echo canary-in-a-command', {
      cwd: '.',
      session: 'canary-session',
      env: { SECRET: 'canary-in-a-variable' },
      stdin: 'canary-in-an-input',
    });
    const [started, ended] = (await recorded()).slice(-2);
    expect(started).toMatchObject({ type: 'ExecStarted', data: { agent_id: talk.agentId }, metadata: { actor: { kind: 'api_key' } } });
    expect(ended).toMatchObject({ type: 'ExecEnded', data: { exit_code: 0, exec_id: started?.data.exec_id } });
    expect(JSON.stringify(await recorded())).not.toContain('canary');
  });
});

describe('an Idempotency-Key', () => {
  it('lets a command run once', async () => {
    const once = () =>
      talk.server.request('POST', `/api/agents/${talk.agentId}/exec`, {
        credential: 'mk_acme',
        json: { command: 'echo x >> once; cat once' },
        headers: { 'idempotency-key': 'once' },
      });
    expect([(await once()).json.stdout, (await once()).json.stdout, (await exec(['cat', 'once'])).json.stdout]).toEqual([
      'x\n',
      'x\n',
      'x\n',
    ]);
  });
});

describe('a command that can’t run', () => {
  it('is refused with what is wrong with it', async () => {
    for (const command of [undefined, null, 5, '', [], [''], ['a', 5], ['x'.repeat(100_001)]])
      expect(await exec(command)).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field: 'command' }] } });
    for (const command of ['a\0b', Array(1_001).fill('x')])
      expect(await exec(command)).toMatchObject({ status: 400, json: { code: 'invalid_request' } });
    for (const timeout of [0, 121, 1.5, '5'])
      expect(await exec(['true'], { timeout })).toMatchObject({
        status: 400,
        json: { errors: expect.arrayContaining([expect.objectContaining({ field: 'timeout' })]) },
      });
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`A${n}`, '']));
    const bad: [string, unknown[]][] = [
      ['cwd', ['', 'a\0b', 5, null]],
      ['env', [{ 'a b': '' }, { PORT: '' }, { MOORING_X: '' }, { A: 5 }, { A: 'x'.repeat(32_769) }, ['A'], null, many]],
      ['stdin', [5, null, 'x'.repeat(1_048_577)]],
      ['session', ['', 'a b', '../a', 'x'.repeat(65), 5]],
    ];
    for (const [field, values] of bad)
      for (const value of values)
        expect(await exec(['true'], { [field]: value })).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  });

  it('is refused without the scope deploy, and for another account as if there were no agent', async () => {
    expect(await exec(['true'], {}, 'mk_acme_provision')).toMatchObject({ status: 403 });
    expect(await exec(['true'], {}, 'mk_other')).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
  });

  it('is refused while the container engine is away, and nothing is written', async () => {
    const before = (await recorded()).length;
    jest.spyOn(talk.runtime.inner, 'available').mockResolvedValue(false);
    expect(await exec(['true'])).toMatchObject({ status: 503, json: { code: 'runtime_unavailable' } });
    expect(await recorded()).toHaveLength(before);
  });

  it('returns 127 for a program that is not there', async () => {
    expect((await exec(['no-such-program'])).json).toMatchObject({ exitCode: 127 });
  });

  it('is refused while the agent is stopped', async () => {
    const agent = `/api/agents/${talk.agentId}`;
    expect((await talk.ask('POST', `${agent}/stop`)).json.status).toBe('stopped');
    expect(await exec(['true'])).toMatchObject({ status: 409, json: { code: 'agent_unavailable' } });
    expect((await talk.ask('POST', `${agent}/start`)).json.status).toBe('active');
  });
});
