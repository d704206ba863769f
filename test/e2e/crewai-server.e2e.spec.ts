import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { TemplateServer } from '../support/template-server.ts';
import { until } from '../support/until.ts';

/** The server of crewAI's template, as anybody may call it at the public address. Its project is a plain class, so nothing is installed. */

const CONNECTIONS_MAX = 100;
const files = {
  'pyproject.toml': '[tool.crewai]\ntype = "crew"\n',
  'echo.py': `class Echo:
    def crew(self):
        return self

    def fetch_inputs(self):
        return {"message"}

    def kickoff(self, inputs):
        if inputs["message"] == "fail":
            raise ConnectionError("no model")
        return "I heard " + inputs["message"]
`,
};
const message = (text: string) => ({ id: crypto.randomUUID(), conversation_id: 'c1', text });

let server: TemplateServer;

beforeAll(async () => {
  const program = { interpreter: 'python3', file: 'crewai/project/serve.py' } as const;
  server = await TemplateServer.start(program, files, { CREWAI_PROGRAM: 'echo:Echo' });
});
afterAll(() => server?.dispose());

async function connected(): Promise<Socket> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** Returns all that the server answers before it closes the connection. */
async function answerTo(text: string): Promise<string> {
  const socket = await connected();
  socket.write(text);
  const pieces: Buffer[] = [];
  for await (const piece of socket) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}

describe('the server of a crew', () => {
  it('replies, and says why it does not', async () => {
    expect((await server.call('POST', '/messages', message('hello'))).json).toEqual({ response: 'I heard hello' });
    expect(await server.call('POST', '/messages', message('fail'))).toMatchObject({
      status: 500,
      json: { error: 'ConnectionError: no model' },
    });
    expect((await server.call('POST', '/others', message('hello'))).status).toBe(404);
    for (const body of [[], 'hello', { text: 'hello' }, { id: 1, conversation_id: 'c1' }])
      expect(await server.call('POST', '/messages', body)).toMatchObject({ status: 422, json: { error: expect.any(String) } });
  });

  it('has conversations of their own with the public, and those of Mooring with nobody else', async () => {
    const forwarded = { forwarded: 'for=203.0.113.7;host="mooring.example.com";proto=https' };
    const webhook = { ...message('secret'), conversation_id: uuidv5('webhooks', uuidv7()) };
    expect((await server.call('POST', '/messages', webhook)).status).toBe(200);
    for (const same of [{ conversation_id: webhook.conversation_id }, { id: webhook.conversation_id }])
      expect((await server.call('POST', '/messages', { ...message('hello'), ...same }, forwarded)).status).toBe(403);
    const own = { ...message('hello'), conversation_id: uuidv7() };
    expect((await server.call('POST', '/messages', own, forwarded)).json).toEqual({ response: 'I heard hello' });
  });

  it.each([
    ['is below zero', 'content-length: -1', 400],
    ['is no number', 'content-length: many', 400],
    ['is too large', 'content-length: 4194305', 413],
    ['has thousands of digits', `content-length: ${'9'.repeat(5_000)}`, 413],
    ['is missing', 'transfer-encoding: chunked', 411],
  ])('waits for no body whose length %s', async (_, header, status) => {
    expect(await answerTo(`POST /messages HTTP/1.1\r\nhost: agent\r\n${header}\r\n\r\n`)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  it('has a bounded number of connections, and serves others once some have ended', async () => {
    const idle = await Promise.all(Array.from({ length: CONNECTIONS_MAX }, connected));
    const tooMany = await answerTo('');
    expect(tooMany).toMatch(/^HTTP\/1.1 503 /);
    const [head = '', body = ''] = tooMany.split('\r\n\r\n');
    expect(head).toContain(`content-length: ${body.length}`);
    for (const socket of idle) socket.destroy();
    const isServed = async () => ((await server.call('GET', '/healthz').catch(() => null))?.status === 200 ? true : undefined);
    await until('others are served', isServed, { timeoutMs: 60_000 });
  });
});
