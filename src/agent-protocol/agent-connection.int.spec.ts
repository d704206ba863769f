import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

import { connectToAgent } from './agent-connection.ts';

/** The most that Node reads of a socket at once, in bytes. */
const READ_BYTES = 64 * 1024;

/** Connects to an agent that sends `bytes` as fast as it can. */
async function flooded(bytes: Buffer, use: (connection: Socket) => Promise<void>): Promise<void> {
  const agent = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(bytes);
  });
  agent.listen(0, '127.0.0.1');
  await once(agent, 'listening');
  const connection = await connectToAgent({ host: '127.0.0.1', port: (agent.address() as AddressInfo).port });
  try {
    await use(connection);
  } finally {
    connection.destroy();
    agent.close();
    await once(agent, 'close');
  }
}

describe('the connection to an agent', () => {
  it('passes on nothing after it was destroyed, though much more was read', async () => {
    await flooded(Buffer.alloc(16 * READ_BYTES, 'x'), async (connection) => {
      let taken = 0;
      connection.on('data', (piece: Buffer) => {
        taken += piece.length;
        connection.destroy();
      });
      await once(connection, 'close');
      expect(taken).toBeGreaterThan(0);
      expect(taken).toBeLessThanOrEqual(4_096);
    });
  });

  it('passes on at most one read in each turn of the event loop', async () => {
    await flooded(Buffer.alloc(64 * READ_BYTES, 'x'), async (connection) => {
      let ofTurn = 0;
      let most = 0;
      connection.on('data', (piece: Buffer) => {
        if (ofTurn === 0) setImmediate(() => (ofTurn = 0));
        ofTurn += piece.length;
        most = Math.max(most, ofTurn);
      });
      await once(connection, 'end');
      expect(most).toBeLessThanOrEqual(READ_BYTES);
    });
  });

  it('passes on everything, in order, also to a reader that pauses', async () => {
    const bytes = Buffer.from(Array.from({ length: 40 * READ_BYTES + 17 }, (_, n) => (n * 7) % 251));
    await flooded(bytes, async (connection) => {
      const pieces: Buffer[] = [];
      connection.on('data', (piece: Buffer) => {
        pieces.push(piece);
        connection.pause();
        setImmediate(() => connection.resume());
      });
      await once(connection, 'end');
      expect(Buffer.concat(pieces).equals(bytes)).toBe(true);
    });
  });
});
