import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { WebSocket } from 'ws';

import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** Hostile agents that are reached by attachments, commands, terminals and files, on the local runtime. */

const REPLY_TIMEOUT_SECONDS = 3;
/** The most memory that the service may use, in MB, whatever agents do. An idle one uses about half of it. */
const MEMORY_MB_MAX = 400;
/** Every caller gets a response within this time, in ms, whatever the agent does, on a machine with ten times more work than it can do. */
const ANSWERED_WITHIN_MS = 60_000;

let service: StartedService;
let folder: string;
/** An agent of the template, in which commands of a hostile owner run. */
let agentId: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mooring-hostile-'));
  await writeFile(join(folder, 'hostile.mjs'), PROGRAM);
  service = await StartedService.start({ runtime: 'local', environment: { MOORING_REPLY_TIMEOUT: String(REPLY_TIMEOUT_SECONDS) } });
  agentId = await agent();
});

afterAll(async () => {
  await service?.dispose();
  await rm(folder, { recursive: true, force: true });
});

const root = join(import.meta.dirname, '../..');
/** Serves the port of an agent like `serveHostilely`, instead of the template's program, which never starts. */
const PROGRAM = `
import { createServer } from 'node:net';
await import(${JSON.stringify(join(root, 'scripts/typescript.mjs'))});
const { serveHostilely } = await import(${JSON.stringify(join(root, 'test/support/hostile-agent.ts'))});
createServer((socket) => serveHostilely(socket)).listen(Number(process.env.PORT), process.env.HOST);
await new Promise(() => setInterval(() => undefined, 60_000));
`;

async function agent(): Promise<string> {
  const made = await service.call('POST', '/api/agents', { name: 'hostile', templateId: 'hello' }, { prefer: 'wait=60' });
  expect(made.body).toMatchObject({ status: 'active' });
  return made.body.agent_id;
}

async function hostileAgent(): Promise<string> {
  const id = await agent();
  const variable = { key: 'NODE_OPTIONS', value: `--import=${join(folder, 'hostile.mjs')}` };
  expect((await service.call('POST', `/api/v1/agents/${id}/env`, variable)).status).toBe(201);
  const restarted = await service.call('POST', `/api/v1/agents/${id}/restart`, undefined, { prefer: 'wait=60' });
  expect(restarted.body).toMatchObject({ status: 'active' });
  return id;
}

const exec = (command: unknown, timeout = 2) => service.call('POST', `/api/agents/${agentId}/exec`, { command, timeout });
const authorization = () => ({ authorization: `Bearer ${service.firstRun.api_key}` });

async function inTime<T>(work: Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work;
  expect(performance.now() - began).toBeLessThan(ANSWERED_WITHIN_MS);
  return result;
}

/** Checks that the service still serves others. */
async function servesOthers(): Promise<void> {
  expect((await service.call('GET', `/api/v1/agents/${agentId}`)).status).toBe(200);
  expect(service.peakMemoryMb).toBeLessThan(MEMORY_MB_MAX);
}

describe('a file for a hostile agent', () => {
  it.each([
    ['a body without end', 'dead_letter'],
    ['silence', 'pending'],
    ['an end within the answer', 'pending'],
    ['an error without end', 'pending'],
  ])('is stored, and the result of its message is recorded, if the agent answers with %s', async (answer, status) => {
    const id = await hostileAgent();
    const form = new FormData();
    form.append('message', answer);
    form.append('file', new Blob(['content']), 'file.txt');
    const request = { method: 'POST', headers: authorization(), body: form };
    const response = await inTime(fetch(`${service.firstRun.url}/api/agents/${id}/files/upload`, request));
    expect([response.status, await response.json()]).toMatchObject([200, { ok: true, size: 7 }]);
    const failed = await until('an attempt has failed', async () => {
      const { body } = await service.call('GET', `/api/agents/${id}/deliveries`);
      return body[0]?.attempts > 0 ? body[0] : undefined;
    });
    expect(failed).toMatchObject({ status, message: expect.stringMatching(/^(POST|GET) \/\S* on port \d+/) });
    expect((await service.call('DELETE', `/api/v1/agents/${id}`)).status).toBe(204);
    await servesOthers();
  });
});

describe('a hostile command', () => {
  it.each([
    ['prints without end', 'cat /dev/zero', { truncated: true }],
    ['prints without end to both outputs', 'cat /dev/zero & cat /dev/zero >&2', { truncated: true }],
    ['closes its outputs and stays', 'exec >&- 2>&-; sleep 300', { timedOut: true }],
    ['ignores every signal that it can', 'trap "" TERM INT HUP; while true; do sleep 1; done', { timedOut: true }],
    ['stops itself', 'kill -STOP $$', { timedOut: true }],
    ['leaves a program behind that holds its output', 'setsid sleep 60 & exit 0', {}],
  ])('that %s is answered in time', async (_, command, expected) => {
    expect(await inTime(exec(command))).toMatchObject({ status: 200, body: expected });
    await servesOthers();
  });

  it('eight of which flood callers that read nothing leaves the service its memory', async () => {
    const { hostname: host, port } = new URL(service.firstRun.url);
    const body = JSON.stringify({ command: 'cat /dev/zero', timeout: 2 });
    const callers = Array.from({ length: 8 }, () => {
      const socket = connect(Number(port), host);
      socket.on('error', () => undefined);
      socket.pause();
      socket.write(
        `POST /api/agents/${agentId}/exec HTTP/1.1\r\nhost: ${host}\r\nauthorization: ${authorization().authorization}\r\n` +
          `accept: text/event-stream\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      return socket;
    });
    await Promise.all(callers.map((caller) => once(caller, 'readable')));
    await until('all of them have ended', async () => ((await exec('true')).status === 200 ? true : undefined));
    for (const socket of callers) socket.destroy();
    await servesOthers();
  });
});

describe('a hostile terminal', () => {
  async function open(): Promise<WebSocket> {
    // Without a mask the frames that wait take no memory of this process: all of them are one.
    const options = { headers: authorization(), generateMask: () => undefined };
    const socket = new WebSocket(`${service.firstRun.url.replace('http', 'ws')}/api/agents/${agentId}/terminal`, options);
    socket.on('error', () => undefined);
    await once(socket, 'open');
    return socket;
  }

  /** Resolves when another terminal has printed that many bytes. */
  async function printed(wanted: number): Promise<void> {
    const socket = await open();
    let bytes = 0;
    socket.on('message', (data: Buffer) => (bytes += data.length));
    socket.send(Buffer.from(`head -c ${wanted} /dev/zero\r`));
    await until('it is printed', () => (bytes >= wanted ? true : undefined));
    socket.terminate();
  }

  it('that floods callers who read nothing leaves the service its memory', async () => {
    const sockets = await Promise.all(Array.from({ length: 6 }, () => open()));
    for (const socket of sockets) {
      socket.pause();
      socket.send(Buffer.from('cat /dev/zero\r'));
    }
    await printed(50_000_000);
    for (const socket of sockets) socket.terminate();
    await servesOthers();
  });

  it('that reads nothing makes the caller’s input wait', async () => {
    const socket = await open();
    let shown = '';
    socket.on('message', (data: Buffer) => (shown += data.toString()));
    socket.send(Buffer.from('stty raw -echo; echo rea""dy; sleep 300\r'));
    await until('the program runs', () => (shown.includes('ready') ? true : undefined));
    const piece = Buffer.alloc(60_000, 'x');
    for (let n = 0; n < 5_000; n += 1) socket.send(piece);
    // While this is printed, the service could have read all of it.
    await printed(20_000_000);
    expect(socket.bufferedAmount).toBeGreaterThan(0);
    await servesOthers();
    socket.terminate();
  });

  it('that closes its side while its program runs ends', async () => {
    const socket = await open();
    const closed = once(socket, 'close');
    socket.send(Buffer.from('exec setsid sleep 60 >/dev/null 2>&1 </dev/null\r'));
    await inTime(closed);
    await servesOthers();
  });
});

describe('the files of a hostile agent', () => {
  it('that grow while they are read end at the size in their headers', async () => {
    await exec('head -c 20000000 /dev/zero > grows');
    const growing = exec('i=0; while [ $i -lt 200 ]; do head -c 1000000 /dev/zero >> grows; i=$((i+1)); done', 20);
    const response = await fetch(`${service.firstRun.url}/api/agents/${agentId}/files/download?path=grows`, { headers: authorization() });
    const length = Number(response.headers.get('content-length'));
    const read = await inTime(response.arrayBuffer().then(({ byteLength }) => byteLength));
    if (response.status === 200) expect(read).toBe(length);
    else expect(response.status).toBe(413);
    await growing;
    await servesOthers();
  });

  it('that shrink while they are read break the download off', async () => {
    await exec('head -c 90000000 /dev/zero > shrinks', 20);
    const download = await slowDownload('shrinks');
    await exec(': > shrinks');
    expect(await inTime(download.rest())).toBeLessThan(90_000_000);
    await servesOthers();
  });

  it('of which there are very many in one directory are listed in part', async () => {
    await exec('mkdir many; cd many; seq 1 60000 | xargs touch', 60);
    const list = await inTime(service.call('GET', `/api/agents/${agentId}/files/list?path=many`));
    expect(list).toMatchObject({ status: 200, body: { truncated: true } });
    await servesOthers();
  });
});

/** Starts a download. `rest` reads it to its end, and returns the number of received bytes. */
function slowDownload(path: string): Promise<{ rest: () => Promise<number> }> {
  return new Promise((resolve, reject) => {
    const url = `${service.firstRun.url}/api/agents/${agentId}/files/download?path=${path}`;
    const call = get(url, { headers: authorization() }, (response) => {
      const rest = async () => {
        let bytes = 0;
        response.on('data', (chunk: Buffer) => (bytes += chunk.length));
        await new Promise((ended) => response.on('close', ended).on('error', () => undefined));
        return bytes;
      };
      resolve({ rest });
    });
    call.on('error', reject);
  });
}
