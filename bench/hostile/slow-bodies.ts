import { connect, type Socket } from 'node:net';

import { span } from '../../test/support/until.ts';
import { machineLoad, memoryMb } from '../support/figures.ts';
import { ScaleBed } from '../support/scale-bed.ts';

const CONNECTIONS = 400;
const BODY_BYTES = 990_000;
/** The part of the body that is sent. The rest is never sent. */
const SENT = Buffer.alloc(980_000, 'x');
/** The time before the measurement, which is less than the service waits for the rest of a body. */
const SETTLE_MS = 8_000;

const ways = {
  'without a key': { path: '/api/agents', lines: [] },
  'with a wrong key': { path: '/api/agents', lines: [`x-api-key: mk_${'0'.repeat(49)}`] },
  'on a route that is open to everybody': { path: '/api/auth/login', lines: [] },
} satisfies Record<string, { path: string; lines: string[] }>;

/**
 * Measures the service's memory while unauthenticated callers hold 400 connections open, each with nearly all of a body of 0.99 MB sent.
 */
export async function slowBodies(): Promise<object> {
  const bed = await ScaleBed.start();
  try {
    const { pid, firstRun } = bed.service;
    const rows: object[] = [];
    for (const [how, { path, lines }] of Object.entries(ways)) {
      const before = memoryMb(pid);
      const { sockets, answers } = await hold(new URL(firstRun.url), path, lines);
      await span(SETTLE_MS);
      const held = memoryMb(pid);
      for (const socket of sockets) socket.destroy();
      rows.push({ how, before_mb: before.rss, held_mb: held.rss, grown_mb: held.rss - before.rss, most_mb: held.peak, ...answers });
      await span(1_000);
    }
    console.table(rows);
    return { connections: CONNECTIONS, sent_bytes_of_each: SENT.length, rows, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
}

async function hold(
  { hostname, port }: URL,
  path: string,
  lines: string[],
): Promise<{ sockets: Socket[]; answers: Record<string, number> }> {
  const answers: Record<string, number> = {};
  const head = [`POST ${path} HTTP/1.1`, 'host: service', 'content-type: application/json', `content-length: ${BODY_BYTES}`, ...lines];
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.once('data', (answer) => {
      const status = answer.toString('latin1').slice(9, 12);
      answers[status] = (answers[status] ?? 0) + 1;
    });
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    socket.write(SENT);
    return socket;
  });
  return { sockets, answers };
}
