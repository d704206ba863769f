import { testContainerKey } from '../../../../test/support/container-key.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { builderName, cacheName, firstIdOf } from './builder-names.ts';

describe('the names and the user ids of a builder', () => {
  const namesWith = (key: string) => {
    const identities = new ContainerIdentities('abcdef012345', testContainerKey(key));
    const place = { instance: identities.instance, accountId: 'account', slot: 0, code: identities.builderCodeOf('account') };
    return [builderName(place), cacheName(place), String(firstIdOf(place))];
  };

  it('can’t be computed from the account and the installation without its key', () => {
    const [one, other] = [namesWith('one'), namesWith('other')];
    expect(namesWith('one')).toEqual(one);
    for (const [at, name] of one.entries()) expect(name).not.toBe(other[at]);
    expect(one.join()).not.toMatch(/account|abcdef012345/);
  });
});
