import fc from 'fast-check';

import { safetyOf, type Safety } from './engine-version.ts';

const safety = (Version: string, Components?: { Name: string }[]) => safetyOf({ Version, Components: Components ?? [{ Name: 'Engine' }] });

describe('the version of the engine', () => {
  it.each<[string, Safety]>([
    ['20.10.24+dfsg1', 'below'],
    ['18.09.1-ce', 'below'],
    ['29.5.0', 'below'],
    ['29.5.1-rc.1', 'below'],
    ['29.5.1~beta1', 'below'],
    ['29.5.1', 'safe'],
    ['29.5.1+dfsg1', 'safe'],
    ['29.5.1-0ubuntu1~24.04', 'safe'],
    ['v29.5.1', 'safe'],
    ['29.10.0-rc.1', 'safe'],
    ['30.0.0', 'safe'],
    ['', 'unknown'],
    ['dev', 'unknown'],
    ['29.5', 'unknown'],
    ['29.5.x', 'unknown'],
    ['29.5.1 or so', 'unknown'],
  ])('%s is %s', (version, wanted) => expect(safety(version)).toBe(wanted));

  it('is unknown for other engines than Docker’s', () => {
    expect(safety('4.9.4', [{ Name: 'Podman Engine' }, { Name: 'Conmon' }])).toBe('unknown');
    expect(safetyOf({})).toBe('unknown');
  });

  it('is compared number by number, whatever else is in it', () => {
    const numbers = fc.tuple(fc.nat(99), fc.nat(99), fc.nat(99));
    fc.assert(
      fc.property(numbers, numbers, fc.string(), (one, other, more) => {
        const at = one.findIndex((number, index) => number !== other[index]);
        const wanted = at < 0 || (one[at] ?? 0) > (other[at] ?? 0) ? 'safe' : 'below';
        expect(safetyOf({ Version: one.join('.') }, other.join('.'))).toBe(wanted);
        expect(['safe', 'below', 'unknown']).toContain(safety(more));
      }),
    );
  });
});
