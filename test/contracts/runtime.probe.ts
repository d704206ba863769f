import { request as httpRequest } from 'node:http';

export const startCommand = ['node', 'probe.mjs'];

/** The program that the contract suite runs. It reports its environment and performs requested actions. */
export const probeFiles = {
  'probe.mjs': `
import { spawn } from 'node:child_process';
import { appendFileSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSocketServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const { env } = process;
const onVolume = (name) => join(env.MOORING_VOLUME, name);
const printAll = (file, bytes) => {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(file, bytes, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
};

// Base64 parts with commas between, each perhaps '*' how often.
function written(parts) {
  return Buffer.concat(parts.split(',').map((part) => {
    const [text, times = '1'] = part.split('*');
    return Buffer.from(Buffer.from(text, 'base64').toString('latin1').repeat(Number(times)), 'latin1');
  }));
}

if (process.argv[2] === 'beat') {
  // A beat after a long pause is another one.
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    appendFileSync(onVolume('beats'), now - last > 400 ? '_' : 'x');
    last = now;
  }, 20);
} else if (env.EXIT !== undefined) {
  printAll(1, written(env.PRINT ?? ''));
  printAll(2, written(env.PRINT_ERROR ?? ''));
  process.exitCode = Number(env.EXIT);
} else serve();

function serve() {
  let count = 0;
  const connections = new Map();
  appendFileSync(onVolume('starts'), 'x');
  process.on('SIGTERM', () => {
    if (env.ON_SIGTERM === 'ignore') return;
    if (env.ON_SIGTERM !== 'finish') process.exit(0);
    writeFileSync(onVolume('sigterm'), 'seen');
    process.exit(7);
  });
  const routes = {
    healthz: () => 'ok',
    count: () => String(++count),
    starts: () => String(readFileSync(onVolume('starts')).length),
    environment: () => JSON.stringify({ environment: env, listening: server.address().port, words: process.argv.slice(2) }),
    print: ([stream], body) => printAll(stream === 'stderr' ? 2 : 1, body),
    messages: (_, body) => {
      const { id, text: written, payload } = JSON.parse(body);
      const text = written || (typeof payload === 'string' ? payload : '');
      appendFileSync(onVolume('messages'), body + '\\n');
      appendFileSync(onVolume('heard'), id + ' ' + text + '\\n');
      const isNew = readFileSync(onVolume('heard'), 'utf8').split(id).length === 2;
      const [order] = text.split(' ');
      if (order === 'fail') throw new Error('asked to fail');
      if (order === 'hang' || (order === 'hang-once' && isNew)) return new Promise(() => {});
      if (order === 'die' && isNew) process.exit(4);
      return JSON.stringify({ response: 'heard: ' + text });
    },
    exit: () => setImmediate(() => process.exit(4)),
    kill: () => setImmediate(() => process.kill(process.pid, 'SIGKILL')),
    // Starts a child, in the same session or one of its own.
    child: ([session]) => {
      const detached = session === 'apart';
      spawn(process.execPath, [fileURLToPath(import.meta.url), 'beat'], { stdio: detached ? 'ignore' : 'inherit', detached });
      return until(() => readFileSync(onVolume('beats')).length > 0);
    },
    // Listens at a socket in the folder of sockets, or on the volume: it says a text and closes, floods with so many bytes, or says what it
    // hears.
    socket: ([name, act, detail]) => {
      process.chdir(env.XDG_RUNTIME_DIR ?? env.MOORING_VOLUME);
      const server = createSocketServer((socket) => {
        socket.on('error', () => undefined);
        if (act === 'say') socket.end(detail);
        else if (act === 'flood') socket.end(Buffer.alloc(Number(detail), 'x'));
        else socket.pipe(socket);
        connections.set(name, (connections.get(name) ?? 0) + 1);
        socket.on('close', () => connections.set(name, connections.get(name) - 1));
      });
      return new Promise((resolve) => server.listen(name, () => resolve('')));
    },
    connections: ([name]) => String(connections.get(name) ?? 0),
    file: ([name], body, method) => (method === 'PUT' ? writeFileSync(onVolume(name), body) : readFileSync(onVolume(name))),
  };
  const server = createServer(async (asked, answer) => {
    const chunks = [];
    for await (const chunk of asked) chunks.push(chunk);
    const [, route, ...rest] = asked.url.split('/');
    try {
      answer.end(await (routes[route] ?? (() => { throw new Error('no route'); }))(rest, Buffer.concat(chunks), asked.method) || '');
    } catch (error) {
      answer.statusCode = 500;
      answer.end(String(error));
    }
  });
  server.listen(Number(env.PORT), env.HOST ?? '0.0.0.0');
}

async function until(condition) {
  for (let tries = 0; tries < 500; tries++) {
    try {
      if (condition()) return '';
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('it never came true');
}
`,
};

export interface Answer {
  status: number;
  text: string;
}

/** Sends one request to the probe, on a connection of its own. */
export function request(to: { host: string; port: number }, method: string, path: string, body?: Buffer | string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asking = httpRequest({ ...to, method, path, agent: false, timeout: 15_000 }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    asking.on('timeout', () => asking.destroy(new Error('no answer')));
    asking.on('error', reject);
    asking.end(body);
  });
}
