import type { Socket } from 'node:net';

import type { ProgramRun, StandInProgram } from './engine-stand-in/program.ts';

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
  'a reset': (socket: Socket) => void socket.resetAndDestroy(),
  'an end before the answer': (socket: Socket) => void socket.end(),
  'an end within the answer': (socket: Socket) => void socket.end(head(1_000) + HEARD.slice(0, 5)),
  garbage: (socket: Socket) => void socket.end('\x16\x03\x01 no HTTP at all\r\n\r\n'),
  'another protocol': (socket: Socket) => void socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
} satisfies Record<string, (socket: Socket) => void>;

/** The prefix of messages whose remaining text is printed, each as a line of output; `\n` separates several. */
const PRINT = 'print ';

/**
 * Serves a connection as a hostile agent does: it is healthy, and answers properly to every message that names none of its hostile
 * responses.
 */
export function serveHostilely(socket: Socket, onMessage: (text: string) => void = () => undefined): void {
  let asked = '';
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    asked += chunk.toString('latin1');
    const end = asked.indexOf('\r\n\r\n');
    const length = Number(/content-length: (\d+)/i.exec(asked)?.[1] ?? 0);
    if (end < 0 || asked.length < end + 4 + length) return;
    const body = asked.slice(end + 4);
    asked = '';
    const text = body === '' ? '' : (JSON.parse(Buffer.from(body, 'latin1').toString()) as { text: string }).text;
    if (body !== '') onMessage(text);
    const answer = (answersOfAHostileAgent as Record<string, ((socket: Socket) => void) | undefined>)[text];
    if (answer === undefined) socket.end(head(HEARD.length) + HEARD);
    else answer(socket);
  });
}

/** Returns the hostile agent as the program of an image; `onMessage` is called with each message that reaches it. */
export function hostileProgram(onMessage: (text: string) => void = () => undefined): StandInProgram {
  return {
    listens: true,
    answer: () => ({ status: 500, body: 'it serves its connections itself' }),
    connection: (run, socket) =>
      serveHostilely(socket, (text) => {
        if (text.startsWith(PRINT)) print(run, text.slice(PRINT.length));
        onMessage(text);
      }),
  };
}

function print(run: ProgramRun, text: string): void {
  run.print('stdout', Buffer.from(`${text}\n`));
}
