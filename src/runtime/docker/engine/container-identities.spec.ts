import { createSecretKey, randomBytes } from 'node:crypto';
import fc from 'fast-check';

import type { ContainerIdentity } from '../../container.ts';
import { ContainerIdentities, outdatedName } from './container-identities.ts';
import { labels, type Labels } from './names.ts';

const instance = 'abcdef012345';
const key = createSecretKey(randomBytes(32));
const identities = new ContainerIdentities(instance, key);
const identity = { agentId: '01a21736-6966-7185-8a3d-dcbdb85034e3', generation: 3, deploymentId: 'd1' };
const egress = { [labels.allow]: '["api.example"]', [labels.address]: '10.0.0.7' };

interface Given {
  identity: ContainerIdentity;
  egress: Labels;
}
const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'a', '1', '","', '\\', '"', 'a"', 'null', '\ud800', '\udc00'));
const given: fc.Arbitrary<Given> = fc.record({
  identity: fc.record({ agentId: text, generation: fc.nat(20), deploymentId: text }),
  egress: fc
    .record({ allow: text, address: text }, { requiredKeys: [] })
    .map((some) =>
      Object.fromEntries(Object.entries(some).map(([name, value]) => [name === 'allow' ? labels.allow : labels.address, value])),
    ),
});
const codeOf = (each: Given) => identities.labelsOf(each.identity, each.egress)[labels.code];

describe('the code among a container’s labels', () => {
  it('is another one for anything else', () => {
    fc.assert(
      fc.property(given, given, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(codeOf(one)).not.toBe(codeOf(other));
      }),
      { numRuns: 2_000 },
    );
  });

  it('is another one where the same text is cut in another place', () => {
    fc.assert(
      fc.property(text, text, text, (one, two, three) => {
        fc.pre(two !== '');
        const left = { identity: { agentId: one + two, generation: 1, deploymentId: three }, egress: {} };
        const right = { identity: { agentId: one, generation: 1, deploymentId: two + three }, egress: {} };
        expect(codeOf(left)).not.toBe(codeOf(right));
      }),
    );
  });

  it('is another one for other installations, and under another key', () => {
    const all = [
      identities,
      new ContainerIdentities('012345abcdef', key),
      new ContainerIdentities(instance, createSecretKey(randomBytes(32))),
    ];
    for (const of of [
      (each: ContainerIdentities) => each.labelsOf(identity)[labels.code],
      (each: ContainerIdentities) => each.nameOf(identity),
      (each: ContainerIdentities) => each.hostNameOf(identity.agentId),
    ])
      expect(new Set(all.map(of)).size).toBe(3);
  });
});

describe('the names of a container', () => {
  it('show nothing of its agent, and are others for each agent and generation', () => {
    const names = [identity, { ...identity, generation: 4 }, { ...identity, agentId: identity.agentId.replace('0', '1') }].map((each) =>
      identities.nameOf(each),
    );
    for (const name of names) expect(name).toMatch(/^mooring-[0-9a-f]{32}$/);
    expect(new Set(names).size).toBe(3);
    expect(identities.hostNameOf(identity.agentId)).toMatch(/^agent-[0-9a-f]{20}$/);
  });
});

describe('a container', () => {
  const name = `/${identities.nameOf(identity)}`;
  const made = identities.labelsOf(identity, egress);

  it('is an agent’s by its name and its labels together', () => {
    expect(identities.identify([name], made)).toEqual(identity);
    expect(identities.identify(['/another/name', name], { ...made, 'org.example': 'x' })).toEqual(identity);
    expect(identities.identify([name], identities.labelsOf(identity))).toEqual(identity);
  });

  it('is nobody’s with the labels and another name', () => {
    const others = ['/relaxed_darwin', `/${outdatedName(identity)}`, `/${identities.nameOf({ ...identity, generation: 4 })}`, `${name}x`];
    for (const other of others) expect(identities.identify([other], made)).toBeNull();
    expect(identities.identify([], made)).toBeNull();
  });

  it('is nobody’s with the name and other labels', () => {
    for (const label of Object.keys(made)) {
      expect(identities.identify([name], { ...made, [label]: `${made[label]}1` })).toBeNull();
      expect(identities.identify([name], Object.fromEntries(Object.entries(made).filter(([each]) => each !== label)))).toBeNull();
    }
    for (const code of ['', '0', 'é'.repeat(64), made[labels.code]?.toUpperCase() ?? '', identities.labelsOf(identity)[labels.code] ?? ''])
      expect(identities.identify([name], { ...made, [labels.code]: code })).toBeNull();
    expect(identities.identify([name], { ...identities.labelsOf(identity), [labels.allow]: '["evil.example"]' })).toBeNull();
  });

  it('is outdated with a supervisor that speaks another version', () => {
    const other = identities.labelsOf(identity, { [labels.supervised]: '0' });
    expect(identities.identify([`/${identities.nameOf(identity)}`], other)).toEqual({ ...identity, outdated: true });
  });

  it('is outdated with the name and the labels of earlier releases', () => {
    const { [labels.code]: _, ...older } = made;
    expect(identities.identify([`/${outdatedName(identity)}`], older)).toEqual({ ...identity, outdated: true });
  });

  it('is nobody’s with the labels of earlier releases and another name, or of another installation', () => {
    const { [labels.code]: _, ...older } = made;
    for (const other of ['/relaxed_darwin', name, `/${outdatedName({ ...identity, generation: 2 })}`])
      expect(identities.identify([other], older)).toBeNull();
    expect(identities.identify([`/${outdatedName(identity)}`], { ...older, [labels.instance]: '012345abcdef' })).toBeNull();
    expect(identities.identify([`/${outdatedName(identity)}`], {})).toBeNull();
  });
});
