import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { answersOfAHostileAgent } from '../../../../test/support/hostile-agent.ts';
import type { Config } from '../../../kernel/config/config.ts';
import { Targets } from './targets.ts';

const targets = new Targets({ allowPrivateTargets: ['127.0.0.1'] } as unknown as Config);
/** The time for an attempt, in ms: short where the target never answers, and longer than any test takes where it does. */
const [SHORT_MS, LONG_MS] = [500, 300_000];

/** Posts to a target that answers like this. Returns what came of it, once the target has lost its connection. */
async function post(answer: (socket: Socket) => void, timeoutMs: number) {
  const closed: Promise<unknown>[] = [];
  const server = createServer((socket) => {
    closed.push(new Promise((resolve) => socket.once('close', resolve)));
    socket.on('error', () => undefined);
    socket.once('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const posted = await targets.post(address, {}, Buffer.from('{}'), timeoutSignal(timeoutMs));
  await Promise.all(closed);
  server.close();
  return posted;
}

describe('a target that answers with', () => {
  const { silence, 'a drip of headers': drip, ...others } = answersOfAHostileAgent;

  it.each(Object.entries(others))('%s loses its connection at once', async (_, answer) => {
    const { status, failure } = await post(answer, LONG_MS);
    const isSuccess = status !== null && status >= 200 && status < 300;
    expect(failure === null).toBe(isSuccess);
    expect(failure ?? '').not.toMatch(/127\.0\.0\.1|in time/);
  });

  it.each([
    ['silence', silence],
    ['a drip of headers', drip],
  ])('%s has failed when its time is over', async (_, answer) => {
    expect(await post(answer, SHORT_MS)).toEqual({ status: null, failure: 'the target did not answer in time' });
  });
});
