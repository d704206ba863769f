import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

import type { Progress } from '@modelcontextprotocol/sdk/types.js';

import { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { callOf, startTools, type ToolFixture, type ToolResult } from '../support/tool-fixture.ts';
import { until } from '../support/until.ts';

let bed: ToolFixture;
let agentId: string;

beforeAll(async () => {
  bed = await startTools();
  ({ agentId } = bed);
});
afterAll(() => bed?.close());
afterEach(() => void Object.assign(bed.times, { waitSeconds: 50, marginSeconds: 5 }));

const call: ToolFixture['call'] = (...given) => bed.call(...given);
const post: ToolFixture['post'] = (...given) => bed.post(...given);

describe('a model with a key', () => {
  it('gets the names of the tools, their arguments and what they change', async () => {
    const client = await bed.connected();
    expect(client.getServerVersion()).toMatchObject({ name: 'mooring' });
    const { tools } = await client.listTools();
    const chat = tools.find(({ name }) => name === 'chat_with_agent');
    expect(chat).toMatchObject({
      title: 'Chat with an agent',
      inputSchema: {
        type: 'object',
        required: ['agentId', 'message'],
        properties: { agentId: { type: 'string' }, message: { type: 'string' } },
      },
      annotations: { readOnlyHint: false, destructiveHint: false },
    });
    expect(tools.find(({ name }) => name === 'delete_agent')?.annotations).toMatchObject({ destructiveHint: true, idempotentHint: true });
    expect(tools.find(({ name }) => name === 'list_agents')?.annotations).toMatchObject({ readOnlyHint: true });
  });

  it('makes an agent from a template, waits for it, and deletes it', async () => {
    expect((await call('list_templates')).json).toEqual(expect.arrayContaining([expect.objectContaining({ id: 'hello' })]));
    const made = await call('create_agent', { templateId: 'hello', name: 'two', externalId: 'two' });
    expect([made.isError, made.json.status, made.notes]).toEqual([false, 'active', '']);
    const { agent_id } = made.json as { agent_id: string };
    expect((await call('list_agents', { external_id: 'two' })).json).toMatchObject([{ agent_id, name: 'two' }]);
    expect((await call('stop_agent', { agentId: agent_id })).json.status).toBe('stopped');
    expect((await call('start_agent', { agentId: agent_id })).json.status).toBe('active');
    expect((await call('wait_for_agent', { agentId: agent_id, status: 'active' })).json.status).toBe('active');
    expect((await call('deploy_agent', { agentId: agent_id })).json.status).toBe('active');
    expect(await call('delete_agent', { agentId: agent_id })).toMatchObject({ isError: false, text: 'Done.' });
    expect(await call('get_agent', { agentId: agent_id })).toMatchObject({ isError: true, json: { code: 'agent_not_found' } });
  });

  it('chats, and goes on with the conversation', async () => {
    const first = await call('chat_with_agent', { agentId, message: 'good morning' });
    expect(first.json.response).toBe('heard: good morning');
    const { conversation_id } = first.json as { conversation_id: string };
    expect((await call('chat_with_agent', { agentId, message: 'again', conversation_id })).json.response).toBe('heard: again');
    const said = await call('list_agent_messages', { agentId, conversationId: conversation_id });
    expect((said.json as { text: string }[]).map(({ text }) => text)).toEqual([
      'good morning',
      'heard: good morning',
      'again',
      'heard: again',
    ]);
  });

  it('gets the reason if an agent does not reply', async () => {
    expect(await call('chat_with_agent', { agentId, message: 'fail' })).toMatchObject({ isError: true, json: { code: 'agent_failed' } });
  });

  it('runs a command and gets its output and exit code', async () => {
    const { json } = await call('run_agent_command', { agentId, command: 'echo $COLOR; exit 3', env: { COLOR: 'green' } });
    expect(json).toMatchObject({ stdout: 'green\n', exitCode: 3 });
  });

  it('starts a background command, reads its output, and kills it', async () => {
    const started = await call('start_agent_command', { agentId, command: 'echo begun; sleep 600' });
    const { command_id: commandId } = started.json as { command_id: string };
    const output = await until('it has printed', async () => {
      const read = await call('read_agent_command_output', { agentId, commandId });
      return read.text === 'begun\n' ? read : undefined;
    });
    expect(output.notes).toBe('Go on with offset 6.');
    expect((await call('get_agent_command', { agentId, commandId })).json.status).toBe('running');
    expect((await call('delete_agent_command', { agentId, commandId })).text).toBe('Done.');
  });

  it('reads the log as lines', async () => {
    const log = await until('the log tells of the deployment', async () => {
      const { text } = await call('list_agent_logs', { agentId });
      return text.includes('info') ? text : undefined;
    });
    expect(log).toMatch(/^\d{4}-\d\d-\d\dT\S+ info \S+ .+/);
  });

  it('writes, lists and reads files', async () => {
    const content = 'Grüße, 世界 🌍\n'.repeat(10_000);
    expect((await call('write_agent_file', { agentId, path: 'notes/a.txt', content })).json).toMatchObject({ created: true });
    expect((await call('list_agent_files', { agentId, path: 'notes' })).json.entries).toMatchObject([{ name: 'a.txt' }]);
    let text = '';
    for (let range: string | undefined = ''; range !== undefined;) {
      const part: ToolResult = await call('download_agent_file', { agentId, path: 'notes/a.txt', ...(range === '' ? {} : { range }) });
      expect(Buffer.byteLength(JSON.stringify(part.content.map((each) => each.text)))).toBeLessThan(80_000);
      text += part.text;
      range = /range "([^"]+)"/.exec(part.notes)?.[1];
    }
    expect(text === content).toBe(true);
    await call('write_agent_file', { agentId, path: 'empty', content: '' });
    expect((await call('download_agent_file', { agentId, path: 'empty' })).text).toBe('There is nothing to show.');
  });

  it('gets a picture, also one that is larger than a text may be', async () => {
    const command = `head -c 300000 /dev/urandom > picture.png; head -c 5000000 /dev/zero > large.png; head -c 99 /dev/urandom > data.bin`;
    await call('run_agent_command', { agentId, command });
    const { content } = await call('download_agent_file', { agentId, path: 'picture.png' });
    expect(content).toMatchObject([{ type: 'image', mimeType: 'image/png' }]);
    expect(Buffer.from(content[0]?.data ?? '', 'base64')).toHaveLength(300_000);
    expect(await call('download_agent_file', { agentId, path: 'large.png' })).toMatchObject({
      isError: true,
      json: { code: 'payload_too_large' },
    });
    await call('run_agent_command', { agentId, command: 'head -c 4000000 /dev/zero > most.png' });
    for (let count = 0; count < 4; count += 1)
      expect((await call('download_agent_file', { agentId, path: 'most.png' })).content).toMatchObject([{ type: 'image' }]);
    expect((await call('download_agent_file', { agentId, path: 'data.bin' })).text).toMatch(/^This is no text: 99 bytes/);
  });

  it('is shown what happened, by whom, and why', async () => {
    const history = await call('list_agent_history', { agentId, limit: 2 });
    expect(history.json).toHaveLength(2);
    const cursor = /cursor "([^"]+)"/.exec(history.notes)?.[1];
    expect((await call('list_agent_history', { agentId, limit: 2, cursor })).json[0].revision).toBe(2);
    expect((await call('explain_agent', { agentId })).json).toMatchObject({ status: 'active' });
  });

  it('gets the end of long outputs, and the size of the part that is left out', async () => {
    const { json, notes } = await call('run_agent_command', { agentId, command: 'seq 1 40000; echo the end' });
    expect(json.stdout).toMatch(/^1\n2\n/);
    expect(json.stdout).toMatch(/40000\nthe end\n$/);
    expect(json.stdout.length).toBeLessThan(65_536);
    expect(notes).toContain('Long texts are cut');
  });
});

it('a program connects as the documentation describes', async () => {
  const text = readFileSync(new URL('../../docs/guides/mcp.md', import.meta.url), 'utf8');
  const program = /```js\n(import \{ Client \}[^]*?)```/.exec(text)?.[1] ?? '';
  const env = { ...process.env, MOORING_URL: bed.server.url, MOORING_API_KEY: 'mk_acme' };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { env, timeout: 60_000 });
  expect(stdout).toContain('list_agents');
  expect(stdout).toContain(agentId);
});

describe('a call of a tool', () => {
  it('is refused as its route refuses it, with the code and what to do', async () => {
    const refused = await call('create_agent', { templateId: 'no-such', name: '' });
    expect(refused).toMatchObject({
      isError: true,
      json: { code: 'invalid_request', errors: expect.arrayContaining([expect.objectContaining({ field: 'name' })]) },
    });
    expect(await call('get_agent', { agentId: 'none' })).toMatchObject({
      isError: true,
      json: { code: 'agent_not_found', detail: expect.any(String) },
    });
    expect(await call('get_agent', { agentId }, 'mk_other')).toMatchObject({ isError: true, json: { code: 'agent_not_found' } });
  });

  it.each([
    ['get_agent', { agentId: '' }, 'agentId'],
    ['get_agent', {}, 'agentId'],
    ['get_agent', { agentId: 7 }, 'agentId'],
    ['get_agent', { agentId: 'a', color: 'green' }, 'color'],
    ['list_agents', { limit: { most: 5 } }, 'limit'],
    ['list_agents', { limit: 9_999 }, 'limit'],
    ['chat_with_agent', { agentId: 'a', message: 'x', idempotency_key: 'a\nb' }, 'idempotency_key'],
    ['run_agent_command', { agentId: 'a', command: 'x', timeout: 90 }, 'timeout'],
  ])('of %s with %j is refused by the name of the argument', async (name, given, field) => {
    const { isError, json } = await call(name, given);
    expect([isError, json.code]).toEqual([true, 'invalid_request']);
    expect(json.errors).toEqual([expect.objectContaining({ field })]);
  });

  it('under an idempotency key does its work once', async () => {
    const given = { agentId, message: 'only once', idempotency_key: 'once' };
    const first = await call('chat_with_agent', given);
    expect((await call('chat_with_agent', given)).json).toEqual(first.json);
  });

  it('that is not over in time says how things stand and which tool to ask next, and tells of its progress', async () => {
    bed.times.waitSeconds = 6;
    const progress: Progress[] = [];
    const { isError, json, notes } = await call('chat_with_agent', { agentId, message: 'hang' }, 'mk_acme', (each) => progress.push(each));
    expect([isError, json.response]).toEqual([false, null]);
    expect(notes).toContain('list_agent_messages');
    expect(progress).toMatchObject([{ progress: 5 }]);
    const said = await call('list_agent_messages', { agentId, conversationId: json.conversation_id });
    expect(said.json).toMatchObject([{ text: 'hang' }]);
    bed.times.waitSeconds = 1;
    const waited = await call('wait_for_agent', { agentId, status: 'sleeping', timeout: 1 });
    expect(waited).toMatchObject({ isError: false, json: { code: 'wait_timeout', agent_status: 'active' } });
    expect(waited.notes).toContain('wait_for_agent');
  });

  it('writes events that contain its caller, its address and the request', async () => {
    const headers = { 'x-request-id': 'asked-by-a-model' };
    const answer = await post(callOf('write_agent_file', { agentId, path: 'b', content: 'x' }), headers);
    expect([answer.status, answer.headers.get('x-request-id')]).toEqual([200, 'asked-by-a-model']);
    const events = [];
    for await (const { type, metadata } of bed.server.app.get(EventStore, { strict: false }).readStream(`files-${agentId}`))
      events.push({ type, metadata });
    expect(events.findLast(({ type }) => type === 'FileChangeStarted')?.metadata).toMatchObject({
      actor: { kind: 'api_key', id: 'mk_acme' },
      request_id: 'asked-by-a-model',
      ip: expect.stringMatching(/127\.0\.0\.1/),
    });
  });
});

describe('which tools there are', () => {
  it('follows the scopes of the key; a session has all', async () => {
    const deploy = await bed.namesFor('mk_acme_deploy');
    expect(deploy).toEqual(
      expect.arrayContaining(['deploy_agent', 'run_agent_command', 'get_agent_rest', 'list_agents_rest', 'list_templates']),
    );
    expect(deploy).not.toEqual(expect.arrayContaining(['get_agent']));
    expect(deploy.filter((name) => ['delete_agent', 'create_agent', 'list_agents', 'list_agent_history'].includes(name))).toEqual([]);
    const provision = await bed.namesFor('mk_acme_provision');
    expect(provision).toEqual(expect.arrayContaining(['create_agent', 'provision_agent', 'get_agent', 'list_agent_logs']));
    expect(provision.filter((name) => ['deploy_agent', 'delete_agent', 'run_agent_command', 'get_agent_rest'].includes(name))).toEqual([]);
    expect(await bed.namesFor('mk_acme_secrets')).toEqual(['list_templates']);
    const all = await bed.namesFor('ms_acme');
    expect(all).toEqual(expect.arrayContaining([...provision, 'delete_agent', 'explain_agent']));
    expect(await bed.namesFor('mk_acme')).toEqual(all);
  });

  it('changes nothing for who calls one that is not listed: its route refuses', async () => {
    const refused = await call('delete_agent', { agentId }, 'mk_acme_deploy');
    expect(refused).toMatchObject({ isError: true, json: { code: 'insufficient_scope', required_scopes: ['manage'] } });
    await expect(call('no_such_tool')).rejects.toThrow(/no such tool/);
  });
});

describe('the address of tools', () => {
  it.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])('speaks the version %s of the protocol', async (protocolVersion) => {
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    const begun = await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    expect([begun.status, begun.json.result.protocolVersion]).toEqual([200, protocolVersion]);
    const headers = { 'mcp-protocol-version': protocolVersion };
    expect((await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers)).status).toBe(202);
    expect((await post({ jsonrpc: '2.0', id: 2, method: 'tools/list' }, headers)).json.result.tools.length).toBeGreaterThan(15);
  });

  it('accepts a key in either header, and refuses a caller without one', async () => {
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    const byHeader = await bed.server.request('POST', '/api/mcp', { json: list, headers: { 'x-api-key': 'mk_acme' } });
    expect(byHeader.status).toBe(200);
    expect((await post(callOf('get_agent', { agentId }), { 'x-api-key': 'mk_acme' })).json.result.isError).toBeUndefined();
    expect((await bed.server.request('POST', '/api/mcp', { json: list })).status).toBe(401);
  });

  it('has no sessions and no stream of its own: GET and DELETE are 405', async () => {
    for (const method of ['GET', 'DELETE']) {
      const answer = await bed.server.request(method, '/api/mcp', { credential: 'mk_acme' });
      expect([answer.status, answer.headers.get('allow'), answer.headers.get('mcp-session-id')]).toEqual([405, 'POST', null]);
    }
  });

  it('is closed to pages of other sites', async () => {
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    const foreign = await post(list, { origin: 'https://evil.example' });
    expect([foreign.status, foreign.json.code]).toEqual([403, 'origin_not_allowed']);
    expect((await post(list, { origin: bed.server.url })).status).toBe(200);
  });
});
