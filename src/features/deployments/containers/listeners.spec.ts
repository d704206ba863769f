import fc from 'fast-check';
import { namesOf, parseListeners } from './listeners.ts';

const head = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode';
const row = (local: string, state = '0A') =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  0  0 1 1 0 100 0 0 10 0`;
const all6 = '0'.repeat(32);
const loopback6 = `${'0'.repeat(24)}01000000`;
const listenersAt = (...locals: string[]) => parseListeners([head, ...locals.map((local) => row(local))].join('\n'));

describe('the addresses on which the programs of a container listen', () => {
  it.each([
    ['00000000:1F90', '0.0.0.0', false],
    ['020012AC:1F90', '172.18.0.2', false],
    [`${all6}:1F90`, '::', false],
    ['0100007F:1F90', '127.0.0.1', true],
    ['7F000001:1F90', '127.0.0.1', true],
    [`${loopback6}:1F90`, '::1', true],
    [`${'0'.repeat(16)}FFFF00000100007F:1F90`, '127.0.0.1', true],
  ])('are read from the kernel’s tables: %s', (local, host, isLoopback) => {
    expect(listenersAt(local)).toEqual([{ host, port: 8_080, isLoopback }]);
  });

  it('are each listed once, by port, without the name server of the engine', () => {
    const found = listenersAt('00000000:1F90', '0100007F:0050', '0B00007F:C001', '00000000:1F90');
    expect(found?.map(({ host, port }) => `${host}:${port}`)).toEqual(['127.0.0.1:80', '0.0.0.0:8080']);
  });

  it('are not those of other connections', () => {
    expect(parseListeners([head, row('0100007F:1F90', '01')].join('\n'))).toEqual([]);
  });

  it('are not known without a table', () => {
    expect(parseListeners('')).toBeNull();
    fc.assert(fc.property(fc.string(), (text) => parseListeners(`${head}\n${text}`) !== null));
  });

  it('are named in a few words, however many they are', () => {
    const many = Array.from({ length: 40 }, (_, index) => ({ host: '0.0.0.0', port: 1_000 + index, isLoopback: false }));
    expect(namesOf(many)).toBe('0.0.0.0:1000, 0.0.0.0:1001, 0.0.0.0:1002, 0.0.0.0:1003, 0.0.0.0:1004 and 35 more');
    expect(namesOf([{ host: '::1', port: 80, isLoopback: true }])).toBe('[::1]:80');
  });
});
