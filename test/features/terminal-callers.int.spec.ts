import { connect, type Socket } from 'node:net';

import { EventStore, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until, untilTrue } from '../support/until.ts';

/** Callers of terminals whose connections end in every way but that of a WebSocket. */

/** An interval of pings in which none is sent during a test. */
const NO_PINGS_SECONDS = 3_600;
const FRAME_BYTES = 32_768;
/** The input that is sent to a program that reads none. */
const INPUT_BYTES = 32 * FRAME_BYTES;

let talk: ChatFixture;

beforeAll(async () => void (talk = await startChatFixture({})));
afterAll(() => talk?.server.close());

async function recorded(): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of talk.server.app.get(EventStore, { strict: false }).readStream(`exec-${talk.agentId}`)) events.push(event);
  return events;
}

/** Returns a binary frame as a caller sends it, masked with zeros. */
function frame(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x82, 0x80 | 126, bytes.length >> 8, bytes.length & 0xff, 0, 0, 0, 0]), bytes]);
}

/** Opens a terminal in which the line has been run, until it has shown `begun`. */
async function opened(line: string): Promise<Socket> {
  const socket = connect({ port: Number(new URL(talk.server.url).port), host: '127.0.0.1', allowHalfOpen: true });
  socket.on('error', () => undefined);
  const key = 'dGhlIHNhbXBsZSBub25jZQ==';
  socket.write(
    `GET /api/agents/${talk.agentId}/terminal HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mk_acme\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
  );
  let shown = '';
  socket.on('data', (bytes: Buffer) => (shown += bytes.toString('latin1')));
  await until('the terminal is open', () => (shown.includes('101 Switching Protocols') ? true : undefined));
  socket.write(frame(Buffer.from(`echo $$ > shell-pid; stty raw -echo; echo be""gun; ${line}\r`)));
  await until('the line runs', () => (shown.includes('begun') ? true : undefined));
  socket.removeAllListeners('data');
  return socket;
}

/** Sends more input than the service keeps, and no more than the system takes of it. */
async function flooded(socket: Socket): Promise<void> {
  for (let sent = 0; sent < INPUT_BYTES; sent += FRAME_BYTES) socket.write(frame(Buffer.alloc(FRAME_BYTES, 'x\r')));
  await untilTrue(() => socket.writableLength === 0);
}

const ways = {
  'half-closes its connection': (socket: Socket) => void socket.end(),
  'resets its connection': (socket: Socket) => void socket.resetAndDestroy(),
};
const states = {
  'that waits for input': { line: 'cat', prepare: () => Promise.resolve() },
  'whose output nobody reads': { line: 'yes', prepare: async (socket: Socket) => void socket.pause() },
  'whose input no program reads': { line: 'sleep 300', prepare: flooded },
};

describe.each(Object.entries(states))('a terminal %s', (state, { line, prepare }) => {
  it.each(Object.entries(ways))('ends, with its programs, when its caller %s', async (way, leave) => {
    // Only pings tell of a caller that is not read at present, or reads nothing.
    const isSilent = state === 'whose input no program reads' || (state === 'whose output nobody reads' && way.startsWith('half'));
    talk.server.config.webSocketPingSeconds = isSilent ? 1 : NO_PINGS_SECONDS;
    const before = await recorded();
    const socket = await opened(line);
    await prepare(socket);
    leave(socket);
    const ended = await until('the end is recorded', async () =>
      (await recorded()).slice(before.length).find(({ type }) => type === 'TerminalClosed'),
    );
    expect(ended.data).toMatchObject({ end: 'hung_up' });
    const left = await talk.ask('POST', `/api/agents/${talk.agentId}/exec`, { command: 'kill -0 $(cat shell-pid)' });
    expect(left.json.exitCode).not.toBe(0);
    socket.resume();
    await untilTrue(() => socket.closed);
  });
});
