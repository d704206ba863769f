import { RuntimeRefused } from '../../runtime.ts';
import { freeAddress, proxyAddress } from './listed-addresses.ts';

describe('the addresses of a network of agents with a list of names', () => {
  it('are one for the proxy, and one for each agent until there is no more', () => {
    expect(proxyAddress('172.20.0.0/16')).toBe('172.20.0.2');
    const taken = new Set<string>();
    while (taken.size < 4) taken.add(freeAddress('192.168.5.16/29', taken));
    expect([...taken].toSorted()).toEqual(['192.168.5.19', '192.168.5.20', '192.168.5.21', '192.168.5.22']);
    expect(() => freeAddress('192.168.5.16/29', taken)).toThrow(RuntimeRefused);
  });
});
