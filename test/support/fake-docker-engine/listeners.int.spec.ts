import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';

import { until } from '../until.ts';
import { Listeners } from './listeners.ts';

describe('the addresses of a stand-in’s containers', () => {
  it('end with the connections that callers keep to them, which would keep the process of the tests alive', async () => {
    const listeners = new Listeners((_, __, response) => response.end('hello'));
    const address = listeners.address();
    await listeners.open(address, 8080);
    const asking = get({ host: address, port: 8080, agent: new Agent({ keepAlive: true }) });
    const [response] = (await once(asking, 'response')) as [IncomingMessage];
    const { socket } = asking;
    response.resume();
    await once(response, 'end');
    expect(socket?.destroyed).toBe(false);
    listeners.closeAll();
    await until('the caller’s connection has ended', () => (socket?.destroyed ? true : undefined));
  });
});
