import { connect } from 'node:net';
import { once } from 'node:events';

import type { TestServer } from '../../../test/support/http-server.ts';
import { startSampleServer } from '../../../test/support/sample-server.ts';

const REQUESTS = 3_000;

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer();
});
afterAll(() => server?.close());

const lastRequest = 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

/** Sends the text on one connection, and returns everything that comes until the server ends it, as the text asks for. */
async function answered(text: string): Promise<string> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  let received = '';
  socket.on('data', (bytes) => (received += bytes.toString('latin1')));
  socket.write(text);
  await once(socket, 'close');
  return received;
}

describe('a wish for another protocol than WebSocket', () => {
  it('is ignored, in any number of requests that arrive at once on a connection', async () => {
    const warnings: Error[] = [];
    const listener = (warning: Error) => warnings.push(warning);
    process.on('warning', listener);
    const wish = (id: number) =>
      `GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: wish-${id}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n`;
    const received = await answered(Array.from({ length: REQUESTS }, (_, id) => wish(id)).join('') + lastRequest);
    process.off('warning', listener);
    const ids = [...received.matchAll(/^x-request-id: wish-(\d+)\r$/gm)].map(([, id]) => Number(id));
    expect(ids).toEqual(Array.from({ length: REQUESTS }, (_, id) => id));
    expect(received.match(/HTTP\/1\.1 200 OK\r$/gm)).toHaveLength(REQUESTS + 1);
    expect(warnings.filter(({ name }) => name === 'MaxListenersExceededWarning')).toEqual([]);
  });

  it('does not treat the body of its request as another request', async () => {
    const body = JSON.stringify({ name: 'anna' });
    const first = `POST /t/greeting HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const received = await answered(first + lastRequest);
    expect(received.match(/HTTP\/1\.1 \d+/g)).toHaveLength(2);
    expect(received).toMatch(/"status":"ok"/);
  });
});
