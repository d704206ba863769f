import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import Dockerode from 'dockerode';
import { WebSocket } from 'ws';

import { eventsSince, seenContainers } from '../support/engine.ts';
import { importNodeProgram } from '../support/images.ts';
import { hashOfLarge, large } from '../support/public-agent.ts';
import { StartedService } from '../support/started-service.ts';

const IMAGE = `mooring-test-public-${randomBytes(6).toString('hex')}:1`;
const UPLOAD_MIB = 20;
/** The number of requests of each kind that find a frozen agent at the same time. */
const TOGETHER = 10;

describe('public traffic to an agent that is frozen', () => {
  const docker = new Dockerode();
  let service: StartedService;
  let agentId: string;

  beforeAll(async () => {
    await importNodeProgram(docker, IMAGE, await readFile(new URL('../support/public-program.mjs', import.meta.url), 'utf8'));
    service = await StartedService.start({ runtime: 'docker', environment: { MOORING_SHARED_IMAGES: IMAGE } });
    const body = { name: 'public', image: 'docker', image_name: IMAGE, idle_ttl_seconds: 0 };
    const made = await service.call('POST', '/api/v1/provision', body, { prefer: 'wait=60' });
    expect(made.body).toMatchObject({ status: 'active' });
    agentId = made.body.agent_id;
    expect((await service.call('PATCH', `/api/v1/agents/${agentId}`, { public: true })).status).toBe(200);
  });
  afterAll(async () => {
    await service?.dispose();
    await docker.getImage(IMAGE).remove({ force: true });
  });

  beforeEach(async () => {
    const slept = await service.call('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=20' });
    expect(slept.body).toMatchObject({ status: 'sleeping' });
    expect(await seenContainers(agentId)).toMatchObject([{ state: 'paused' }]);
  });

  const url = () => `${service.firstRun.url}/a/${agentId}/`;

  /** Sends a plain request, and returns the response and whether the agent was woken. */
  async function plain(): Promise<[string, boolean]> {
    const response = await fetch(url());
    return [await response.text(), response.headers.get('x-agent-woken') === 'true'];
  }

  /** Uploads a large body in chunks, and returns the hash of what the agent got. */
  async function upload(): Promise<[string, boolean]> {
    const asking = request(url(), { method: 'POST', agent: false });
    const answered = once(asking, 'response') as Promise<[IncomingMessage]>;
    await pipeline(Readable.from(large(UPLOAD_MIB)), asking);
    const [response] = await answered;
    let text = '';
    for await (const bytes of response) text += String(bytes);
    return [text, response.headers['x-agent-woken'] === 'true'];
  }

  /** Opens a WebSocket, sends a message, and returns the agent's. */
  async function socket(): Promise<[string, boolean]> {
    const opened = new WebSocket(url().replace('http', 'ws'));
    const upgraded = once(opened, 'upgrade') as Promise<[IncomingMessage]>;
    await once(opened, 'open');
    const heard = once(opened, 'message');
    opened.send('hello');
    const [data] = (await heard) as [Buffer];
    opened.terminate();
    return [data.toString(), (await upgraded)[0].headers['x-agent-woken'] === 'true'];
  }

  const kinds: [string, () => Promise<[string, boolean]>, string][] = [
    ['a plain request', plain, 'well'],
    ['a streamed upload', upload, hashOfLarge(UPLOAD_MIB)],
    ['a WebSocket', socket, 'heard'],
  ];

  it.each(kinds)('wakes the agent by %s, which gets the agent’s answer', async (_, ask, answer) => {
    expect(await ask()).toEqual([answer, true]);
    expect(await seenContainers(agentId)).toMatchObject([{ state: 'running' }]);
    expect(await ask()).toEqual([answer, false]);
  });

  it('wakes it once by many requests of every kind at the same time', async () => {
    const since = Math.floor(Date.now() / 1_000);
    const thaws = () => eventsSince(agentId, 'unpause', since);
    const before = await thaws();
    const asked = Array.from({ length: TOGETHER }, () => kinds.map(([, ask]) => ask())).flat();
    const answers = (await Promise.all(asked)).map(([answer]) => answer);
    expect(answers).toEqual(Array.from({ length: TOGETHER }, () => kinds.map(([, , answer]) => answer)).flat());
    expect((await thaws()) - before).toBe(1);
    const { body } = await service.call('GET', `/api/v1/agents/${agentId}/history?limit=200&type=AgentWakeRequested`);
    expect(body).toHaveLength(kinds.length + 1);
  });
});
