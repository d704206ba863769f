import fc from 'fast-check';

import type { EgressMode } from '../../../kernel/config/config.ts';
import type { Bridges } from './bridges.ts';
import { egressRules, refusedPackets } from './egress-rules.ts';

const modes = ['internet', 'none', 'all'] as const satisfies readonly EgressMode[];
const nothingOpened = { nameservers: [], ranges: [], mirrors: [], proxies: [] };

/** Any bridges, each of one network alone. */
const someBridges = fc.tuple(fc.nat(4), fc.nat(4), fc.nat(4), fc.nat(4)).map(([open, closed, builds, listed]): Bridges => {
  const names = (kind: string, count: number): string[] => Array.from({ length: count }, (_, at) => `br-${kind}${at}`);
  const proxied = names('l', listed).map((bridge, at) => ({ bridge, proxy: `172.21.${at}.2` }));
  return { open: names('o', open), closed: names('c', closed), builds: names('b', builds), listed: proxied, links: [] };
});

const namesOf = ({ open, closed, builds, listed }: Bridges): string[] => [
  ...open,
  ...closed,
  ...builds,
  ...listed.map(({ bridge }) => bridge),
];

/** Returns the rules of a chain. */
const rulesOf = (script: string, chain: string): string[] =>
  script
    .split('\n')
    .map((line) => new RegExp(`^add rule inet mooring_abc ${chain} (.*)$`).exec(line)?.[1])
    .filter((rule) => rule !== undefined);

/** Returns the elements of a set. */
const elementsOf = (script: string, set: string): string[] =>
  (new RegExp(`^add element inet mooring_abc ${set} \\{ (.*) \\}$`, 'm').exec(script)?.[1] ?? '').split(', ').filter(Boolean);

describe.each(modes)('the rules of agents and builds where they may reach “%s”', (mode) => {
  const scriptOf = (bridges: Bridges): string => egressRules('abc', mode, bridges, nothingOpened);

  it('keep all of them from each other before any other rule, but for answers and what goes to a proxy', () => {
    fc.assert(
      fc.property(someBridges, (bridges) => {
        const script = scriptOf(bridges);
        expect(elementsOf(script, 'ours')).toEqual(expect.arrayContaining(namesOf(bridges).map((name) => `"${name}"`)));
        const forward = rulesOf(script, 'forward');
        const proxied = bridges.listed.map(
          ({ bridge, proxy }) => `iifname "${bridge}" oifname "${bridge}" ip daddr ${proxy} tcp dport 3128 accept`,
        );
        expect(forward.slice(0, proxied.length + 1)).toEqual([...proxied, 'iifname @ours jump among_ours']);
        expect(rulesOf(script, 'among_ours')).toEqual([
          'ct direction reply ct state established accept',
          'oifname @ours counter name refused_agents goto refuse',
        ]);
      }),
    );
  });

  it('look at packets of their own bridges alone', () => {
    fc.assert(
      fc.property(someBridges, (bridges) => {
        const script = scriptOf(bridges);
        const own = ['@ours', ...namesOf(bridges).map((name) => `"${name}"`)];
        for (const rule of ['forward', 'input'].flatMap((hook) => rulesOf(script, hook)))
          expect(own).toContain(/^iifname (\S+) /.exec(rule)?.[1]);
        expect(elementsOf(script, 'ours')).toHaveLength(namesOf(bridges).length);
      }),
    );
  });

  it('let those without a way out, and those with a list, reach neither anything else nor the host', () => {
    fc.assert(
      fc.property(someBridges, (bridges) => {
        const script = scriptOf(bridges);
        for (const hook of ['forward', 'input'])
          for (const bridge of [...bridges.closed, ...bridges.listed.map((each) => each.bridge)])
            expect(rulesOf(script, hook)).toContain(`iifname "${bridge}" jump closed_${hook}`);
        expect(rulesOf(script, 'closed_forward')).toEqual(['counter name refused_anywhere goto refuse']);
        expect(rulesOf(script, 'closed_input').at(-1)).toBe('counter name refused_host goto refuse');
      }),
    );
  });

  it(`${mode === 'all' ? 'leave' : 'judge'} all else of the others`, () => {
    fc.assert(
      fc.property(someBridges, (bridges) => {
        const script = scriptOf(bridges);
        const judged = [...bridges.open.map((name) => [name, 'open'] as const), ...bridges.builds.map((name) => [name, 'builds'] as const)];
        for (const hook of ['forward', 'input'])
          for (const [name, kind] of judged)
            expect(rulesOf(script, hook).includes(`iifname "${name}" jump ${kind}_${hook}`)).toBe(mode !== 'all');
      }),
    );
  });
});

describe('the packets that were refused', () => {
  it('are counted by where they went, over all tables', () => {
    const table = (packets: number) =>
      `table inet t {\n\tcounter refused_agents {\n\t\tpackets ${packets} bytes 9\n\t}\n\tcounter refused_host {\n\t\tpackets 2 bytes 9\n\t}\n}`;
    expect(refusedPackets(`${table(3)}\n${table(4)}`)).toEqual(
      new Map([
        ['agents', 7],
        ['host', 4],
      ]),
    );
  });
});
