import { isOpen, openRange } from './open-ranges.ts';

describe('private addresses that the operator opens', () => {
  it.each([
    ['192.168.1.10', { family: 'ip', range: '192.168.1.10/32', port: null }],
    ['192.168.1.10:11434', { family: 'ip', range: '192.168.1.10/32', port: 11_434 }],
    ['10.1.2.0/24', { family: 'ip', range: '10.1.2.0/24', port: null }],
    ['10.1.2.0/24:5432', { family: 'ip', range: '10.1.2.0/24', port: 5_432 }],
    ['fd00::1', { family: 'ip6', range: 'fd00::1/128', port: null }],
    ['fd00::/64', { family: 'ip6', range: 'fd00::/64', port: null }],
    ['[fd00::/64]:80', { family: 'ip6', range: 'fd00::/64', port: 80 }],
  ])('may be written as %s', (text, range) => {
    expect(openRange(text)).toEqual(range);
  });

  it.each([
    '',
    'localhost',
    '10.1',
    '10.1.2.0/33',
    '10.1.2.0/24:0',
    '10.1.2.0/24:65536',
    '0x7f.1.1.1',
    'fe80::1%eth0',
    '[fd00::1',
    '10.0.0.1 accept',
  ])('may not be written as "%s"', (text) => {
    expect(openRange(text)).toBeNull();
  });

  it('are matched by address and port', () => {
    const open = ['10.1.2.0/24:5432', 'fd00::1'].map((text) => openRange(text)).filter((range) => range !== null);
    expect([isOpen(open, '10.1.2.9', 5_432), isOpen(open, 'fd00::1', 80)]).toEqual([true, true]);
    expect([isOpen(open, '10.1.2.9', 80), isOpen(open, '10.1.3.9', 5_432), isOpen(open, 'fd00::2', 80)]).toEqual([false, false, false]);
  });
});
