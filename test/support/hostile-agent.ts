import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

import type { ProgramRun, FakeProgram } from './fake-docker-engine/program.ts';

const head = (length: number | 'chunked') =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`}\r\n\r\n`;
const HEARD = '{"response":"heard"}';
const DRIP_MS = 20;
/** The bytes that are written at a time of an endless response. */
const PIECE_BYTES = 64 * 1024;

/** Writes the text repeatedly for as long as the reader accepts it. */
function forEver(socket: Socket, text: string): void {
  const piece = Buffer.from(text.repeat(Math.ceil(PIECE_BYTES / text.length)));
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', more);
  more();
}

function drip(socket: Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), DRIP_MS);
  socket.on('close', () => clearInterval(timer));
}

/** The agent's hostile responses, by the text of the message that causes each. */
export const answersOfAHostileAgent = {
  'continue without end': (socket: Socket) => forEver(socket, 'HTTP/1.1 100 Continue\r\n\r\n'),
  'early hints without end': (socket: Socket) => forEver(socket, 'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n'),
  'a header without end': (socket: Socket) => (socket.write('HTTP/1.1 200 OK\r\nx: '), forEver(socket, 'x')),
  'headers without end': (socket: Socket) => (socket.write('HTTP/1.1 200 OK\r\n'), forEver(socket, 'a: b\r\n')),
  'a body without end': (socket: Socket) => (socket.write(head('chunked')), forEver(socket, `1000\r\n${'x'.repeat(0x1000)}\r\n`)),
  'a body in the smallest pieces': (socket: Socket) => (socket.write(head('chunked')), forEver(socket, '1\r\nx\r\n')),
  'a drip of headers': (socket: Socket) => (socket.write('HTTP/1.1 200 OK\r\n'), drip(socket, 'a: b\r\n')),
  'a drip of body': (socket: Socket) => (socket.write(head('chunked')), drip(socket, '1\r\nx\r\n')),
  silence: () => undefined,
  'an error without end': (socket: Socket) => (
    socket.write('HTTP/1.1 500 Internal Server Error\r\ntransfer-encoding: chunked\r\n\r\n'),
    forEver(socket, `1000\r\n${'x'.repeat(0x1000)}\r\n`)
  ),
  'a reset': (socket: Socket) => void socket.resetAndDestroy(),
  'an end before the answer': (socket: Socket) => void socket.end(),
  'an end within the answer': (socket: Socket) => void socket.end(head(1_000) + HEARD.slice(0, 5)),
  garbage: (socket: Socket) => void socket.end('\x16\x03\x01 no HTTP at all\r\n\r\n'),
  'another protocol': (socket: Socket) => void socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
  'a redirect to a metadata address': (socket: Socket) =>
    void socket.end('HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/meta-data\r\ncontent-length: 0\r\n\r\n'),
  'two lengths': (socket: Socket) => void socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 20\r\n\r\n${HEARD}`),
  'a length and chunks': (socket: Socket) =>
    void socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 20\r\ntransfer-encoding: chunked\r\n\r\n14\r\n${HEARD}\r\n0\r\n\r\n`),
  'a reply that is no text': (socket: Socket) => void socket.end(`${head(16)}{"response":[1]}`),
  'a reply that is nested deep': (socket: Socket) =>
    void socket.end(head(100_013) + `{"response":${'['.repeat(50_000)}${']'.repeat(50_000)}}`),
  'the length of a terabyte': (socket: Socket) => (socket.write(head(2 ** 40)), forEver(socket, 'x')),
} satisfies Record<string, (socket: Socket) => void>;

/** The texts that the agent prints again and again, by the name of the output. */
export const outputsOfAHostileAgent: Record<string, () => Buffer> = {
  'lines as fast as they go': () => Buffer.from('nothing that anybody wants to read\n'.repeat(1_000)),
  'a line without end': () => Buffer.alloc(PIECE_BYTES, 'x'),
  'bytes at random': () => randomBytes(16 * 1_024),
  'levels that are names of a prototype': () => Buffer.from('{"level":"__proto__","message":"x"}\n{"level":"constructor","message":"x"}\n'),
  'NUL, escape sequences and halves of characters': () => Buffer.from('\0\x1b[2J\x1b]0;title\x07\r\ud800\n{"message":"\\u0000\\ud800"}\n'),
  'JSON nested without end': () => Buffer.from(`${'{"message":'.repeat(5_000)}\n`),
  'entries with fields of another meaning': () => Buffer.from('{"level":7,"message":{"a":[]},"time":"never","agent_id":"another"}\n'),
};
const PRINT_EVERY_MS = 100;

/** The prefix of messages whose remaining text names the response to health checks from then on. */
const SICKEN = 'be sick with ';
/** The prefix of messages whose remaining text names the output that is printed until the container ends. */
const FLOOD = 'flood with ';
/** The message at which the agent ends as if it had run out of memory. */
export const CRASH = 'crash';

/** The prefix of messages whose remaining text names the response to the first attempt; further ones get a proper response. */
export const AT_FIRST = 'at first ';

/** The prefix of messages whose remaining text is printed, each as a line of output; `\n` separates several. */
const PRINT = 'print ';

/** The ids of the messages that got another response at the first attempt. */
const askedBefore = new Set<string>();

/**
 * Serves a connection as a hostile agent does: it is healthy unless `sickness` names one of its hostile responses, and responds properly to
 * every message that names none of them.
 */
export function serveHostilely(socket: Socket, onMessage: (text: string) => void = () => undefined, sickness = ''): void {
  let asked = '';
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    asked += chunk.toString('latin1');
    const end = asked.indexOf('\r\n\r\n');
    const length = Number(/content-length: (\d+)/i.exec(asked)?.[1] ?? 0);
    if (end < 0 || asked.length < end + 4 + length) return;
    const body = asked.slice(end + 4);
    asked = '';
    const message =
      body === '' ? null : (JSON.parse(Buffer.from(body, 'latin1').toString()) as { id: string; text: string; payload?: string });
    // The body of a webhook takes the place of the text.
    const text = message === null ? sickness : message.text || (message.payload ?? '');
    const isFirst = message !== null && text.startsWith(AT_FIRST) && !askedBefore.has(message.id);
    if (isFirst) askedBefore.add(message.id);
    if (message !== null) onMessage(text);
    const wanted = isFirst ? text.slice(AT_FIRST.length) : text;
    const answer = (answersOfAHostileAgent as Record<string, ((socket: Socket) => void) | undefined>)[wanted];
    if (answer === undefined) socket.end(head(HEARD.length) + HEARD);
    else answer(socket);
  });
}

/** Returns the hostile agent as the program of an image; `onMessage` is called with each message that reaches it. It ignores SIGTERM. */
export function hostileProgram(onMessage: (text: string) => void = () => undefined): FakeProgram {
  return {
    listens: true,
    answer: () => ({ status: 500, body: 'it serves its connections itself' }),
    terminate: () => null,
    connection: (run, socket) =>
      serveHostilely(
        socket,
        (text) => {
          obey(run, text);
          onMessage(text);
        },
        run.memory.get('sickness') as string | undefined,
      ),
  };
}

function obey(run: ProgramRun, text: string): void {
  if (text.startsWith(PRINT)) run.print('stdout', Buffer.from(`${text.slice(PRINT.length)}\n`));
  else if (text.startsWith(SICKEN)) run.memory.set('sickness', text.slice(SICKEN.length));
  else if (text.startsWith(FLOOD)) flood(run, outputsOfAHostileAgent[text.slice(FLOOD.length)] as () => Buffer);
  else if (text === CRASH) run.exit(137);
}

/** Prints the output again and again until the container ends. */
function flood(run: ProgramRun, output: () => Buffer): void {
  run.print('stdout', output());
  const timer = setInterval(() => (run.isOver() ? clearInterval(timer) : run.print('stdout', output())), PRINT_EVERY_MS);
}
