import { randomInt } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';

import { callOf, startTools, type ToolFixture } from '../support/tool-fixture.ts';
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

describe('a hostile client', () => {
  it('gets nothing by messages that are none', async () => {
    const none = [
      null,
      7,
      {},
      [[]],
      [7],
      { jsonrpc: '1.0', id: 1, method: 'tools/list' },
      { jsonrpc: '2.0', id: {}, method: 'tools/list' },
    ];
    for (const json of none) expect([json, (await post(json)).status]).toEqual([json, 400]);
    expect(await post([])).toMatchObject({ status: 202, text: '' });
    expect(
      (
        await bed.server.request('POST', '/api/mcp', {
          body: '{"jsonrpc"',
          credential: 'mk_acme',
          headers: { 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(400);
    const unknown = await post({ jsonrpc: '2.0', id: 1, method: 'resources/list' });
    expect(unknown.json.error.code).toBe(-32_601);
    const noName = await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { arguments: {} } });
    expect(noName.json.error).toBeDefined();
    for (const params of [{}, { _meta: { progressToken: 1 } }]) {
      const old = { 'mcp-protocol-version': '1999-01-01', accept: 'text/event-stream' };
      const refused = await post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params }, old);
      expect([refused.status, refused.headers.get('content-type'), refused.json.error.code]).toEqual([
        400,
        'application/json; charset=utf-8',
        -32_000,
      ]);
    }
  });

  it('gets nothing by many messages at once, or by large ones', async () => {
    const many = Array.from({ length: 17 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/list' }));
    expect((await post(many)).json.code).toBe('invalid_request');
    const large = await post(callOf('write_agent_file', { agentId, path: 'a', content: 'x'.repeat(1_100_000) }));
    expect([large.status, large.json.code]).toEqual([413, 'payload_too_large']);
  });

  it('that cancels a call among others is answered when the time is over', async () => {
    Object.assign(bed.times, { waitSeconds: 1, marginSeconds: 0 });
    const waits = callOf('wait_for_agent', { agentId, status: 'sleeping', timeout: 30 });
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } };
    expect(await post([waits, cancelled])).toMatchObject({ status: 504, json: { code: 'reply_timeout' } });
  });

  it('has 16 calls at once, whose places are free again when they are over', async () => {
    const waits = Array.from({ length: 16 }, (_, id) => ({
      ...callOf('wait_for_agent', { agentId, status: 'sleeping', timeout: 30 }),
      id,
    }));
    const leaving = new AbortController();
    const held = bed.send(waits, leaving.signal);
    held.catch(() => undefined);
    await until('no place is free', async () => ((await call('list_templates')).json.code === 'rate_limited' ? true : undefined));
    expect((await call('list_templates', {}, 'mk_other')).isError).toBe(false);
    leaving.abort();
    await until('a place is free', async () => ((await call('list_templates')).isError ? undefined : true));
  });

  it('that does not take its results loses its connection', async () => {
    await call('run_agent_command', { agentId, command: 'head -c 4000000 /dev/zero > large.png' });
    // The results have to be whole within the time of a call, also on a busy machine.
    Object.assign(bed.times, { waitSeconds: 1, marginSeconds: 6 });
    for (const more of [{}, { _meta: { progressToken: 1 } }]) {
      const asks = [1, 2].map((id) => ({ ...callOf('download_agent_file', { agentId, path: 'large.png' }, more), id }));
      const before = cutRequests();
      const socket = connect(Number(new URL(bed.server.url).port), '127.0.0.1').on('error', () => undefined);
      const body = JSON.stringify(asks);
      const headers = ['authorization: Bearer mk_acme', 'content-type: application/json', 'accept: text/event-stream', 'host: a'];
      socket.pause().write(`POST /api/mcp HTTP/1.1\r\n${headers.join('\r\n')}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      await until('the connection is cut', () => Promise.resolve(cutRequests() > before ? true : undefined));
      socket.destroy();
    }
  });

  it('that goes away ends what its call has begun', async () => {
    for (const more of [{}, { _meta: { progressToken: 1 } }]) {
      const leaving = new AbortController();
      // No other test runs a command with this argument.
      const command = `sleep 300.${randomInt(1_000_000_000)}`;
      bed.send(callOf('run_agent_command', { agentId, command }, more), leaving.signal).catch(() => undefined);
      await until('the command runs', async () => ((await isRunning(command)) ? true : undefined));
      leaving.abort();
      const left = performance.now();
      await until('the command is killed', async () => ((await isRunning(command)) ? undefined : true));
      // It would also end at its deadline, after 45 s.
      expect(performance.now() - left).toBeLessThan(20_000);
    }
  });

  it('finds no secret in what it gets back, and the log holds none', async () => {
    const canary = 'canary-0815-secret';
    const results = [
      await call('create_agent', { templateId: 'hello', name: 'three', envVars: { TOKEN: canary } }),
      await call('create_agent', { templateId: 'hello', name: 'four', envVars: { 'no name': canary } }),
      await call('provision_agent', { name: canary, color: canary, env_vars: { A: { secret: canary } } }),
      await call('chat_with_agent', { agentId, message: 'x', conversation_id: canary }),
      await call('get_agent', { agentId: canary }),
    ];
    for (const { content } of results.filter(({ isError }) => isError)) expect(JSON.stringify(content)).not.toContain(canary);
    expect(JSON.stringify(results[0]?.content)).not.toContain(canary);
    await post({ jsonrpc: '2.0', id: canary, method: canary, params: canary });
    await post(callOf(canary, { a: canary }));
    expect(bed.server.logLines.join('\n')).not.toContain(canary);
    expect(bed.server.logLines.join('\n')).not.toContain('mk_acme');
  });
});

/** Returns the number of requests to the address of tools that ended before their responses were complete. */
function cutRequests(): number {
  return bed.server.logLines.filter((line) => line.includes('"route":"/api/mcp"') && line.includes('"aborted":true')).length;
}

/** Returns whether a process of this host has the command line; those of agents on the local runtime are among them. */
async function isRunning(command: string): Promise<boolean> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(processes.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return lines.some((line) => line.replaceAll('\0', ' ').trim() === command);
}
