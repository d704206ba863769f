import fc from 'fast-check';

import { linkRules } from './link-rules.ts';
import { linksOf, macOf, reachPorts, type Link } from './links.ts';

const open: Link = { bridge: 'br-0123456789ab', subnet: '172.20.0.0/16', gateway: '172.20.0.1', proxy: null };
const listed: Link = { bridge: 'br-0123456789ab', subnet: '172.21.0.0/16', gateway: '172.21.0.1', proxy: '172.21.0.2' };
const rulesOf = (script: string, chain: string): string[] =>
  script
    .split('\n')
    .map((line) => new RegExp(`^add rule (?:bridge|ip) mooring_abc ${chain} (.*)$`).exec(line)?.[1])
    .filter((rule) => rule !== undefined);

describe('the rules of links', () => {
  const links = fc.uniqueArray(
    fc.record({ at: fc.nat(255), hasProxy: fc.boolean() }).map(({ at, hasProxy }): Link => ({
      bridge: `br-${at}`,
      subnet: `10.${at}.0.0/24`,
      gateway: `10.${at}.0.1`,
      proxy: hasProxy ? `10.${at}.0.2` : null,
    })),
    { selector: ({ subnet }) => subnet, maxLength: 6 },
  );

  it('judge a frame only where it passes a port through which the host sends over a bridge of ours', () => {
    fc.assert(
      fc.property(links, (some) => {
        const script = linkRules('abc', { links: some });
        for (const rule of [...rulesOf(script, 'prerouting'), ...rulesOf(script, 'forward')])
          expect(rule).toMatch(/^meta [io]if @(listed_)?ports goto \w+$/);
        for (const rule of rulesOf(script, 'output'))
          expect(rule).toMatch(/^meta mark & 0x1000 == 0x1000 ip daddr @(listed_)?ranges update /);
        expect(rulesOf(script, 'postrouting')).toEqual(some.map(({ bridge }) => `oifname "${bridge}" meta mark set meta mark | 0x1000`));
      }),
    );
  });

  it('let nothing pass between two ports, but for the proxy of a link that has one', () => {
    const script = linkRules('abc', { links: [open, listed] });
    expect(rulesOf(script, 'apart').at(-1)).toBe('drop');
    expect(rulesOf(script, 'listed').at(-1)).toBe('goto apart');
    for (const rule of rulesOf(script, 'listed').filter((each) => each.endsWith('accept'))) expect(rule).toContain('172.21.0.2 accept');
    expect(rulesOf(linkRules('abc', { links: [open] }), 'listed')).toEqual(['goto apart']);
  });

  it('are as many for 1,000 agents as for one', () => {
    fc.assert(fc.property(links, (some) => expect(linkRules('abc', { links: some }).split('\n').length).toBeLessThan(100)));
  });
});

describe('the link of a network', () => {
  const network = (Config: object[]) => ({ Id: '0123456789abcdef', IPAM: { Config } }) as never;

  it('has the range and the gateway that the engine reports, or the first address of its range', () => {
    const told = [
      { Subnet: 'fd00::/64', Gateway: 'fd00::1' },
      { Subnet: '172.20.0.0/16', Gateway: '172.20.0.9/16' },
    ];
    expect(linksOf([network(told)], false)).toEqual([{ ...open, gateway: '172.20.0.9' }]);
    expect(linksOf([network([{ Subnet: '172.21.0.0/16' }])], true)).toEqual([listed]);
  });

  it('is left out if the engine reports no range', () => {
    expect(linksOf([network([]), {} as never], false)).toEqual([]);
  });

  it('has a proxy with the MAC address that its address gives', () => {
    expect(macOf('172.21.0.2')).toBe('02:42:ac:15:00:02');
  });

  it('gets no packets from a machine that is not on it', async () => {
    await expect(reachPorts([{ bridge: 'br-0', subnet: '203.0.113.0/24', gateway: '203.0.113.1', proxy: null }])).resolves.toBeUndefined();
  });
});
