import { RuntimeRefused } from '../../runtime.errors.ts';
import { beginningOf, freeAddress, isLarger, proxyAddress } from './listed-addresses.ts';

describe('the addresses of a network of agents with a list of names', () => {
  it('are one for the proxy, and one for each agent until there is no more', () => {
    expect(proxyAddress('172.20.0.0/16')).toBe('172.20.0.2');
    const taken = new Set<string>();
    while (taken.size < 4) taken.add(freeAddress('192.168.5.16/29', taken));
    expect([...taken].toSorted()).toEqual(['192.168.5.19', '192.168.5.20', '192.168.5.21', '192.168.5.22']);
    expect(() => freeAddress('192.168.5.16/29', taken)).toThrow(RuntimeRefused);
  });
});

describe('the range of a network', () => {
  it('is the beginning of the one that the engine chose, or that one if it is small', () => {
    expect(['172.18.0.0/16', '192.168.48.0/20', '10.1.4.0/22', '10.1.4.64/26'].map((range) => beginningOf(range, 22))).toEqual([
      '172.18.0.0/22',
      '192.168.48.0/22',
      '10.1.4.0/22',
      '10.1.4.64/26',
    ]);
    expect([isLarger('10.0.0.0/21', 22), isLarger('10.0.0.0/22', 22)]).toEqual([true, false]);
  });
});
