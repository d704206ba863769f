import fc from 'fast-check';

import { nameProblem, candidateNames } from './upload-names.ts';

describe('the names of an upload whose own name exists already', () => {
  it('have a number before the ending, and at last an id', () => {
    expect(candidateNames('a.tar.gz', 'id').slice(0, 3)).toEqual(['a.tar.gz', 'a-2.tar.gz', 'a-3.tar.gz']);
    expect(candidateNames('a', 'id').at(-1)).toBe('a-id');
    expect(candidateNames('.env', 'id')[1]).toBe('.env-2');
  });

  it('are different from each other and can be names of files, whatever the first one is', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ unit: 'binary', maxLength: 100 }), fc.constantFrom('x'.repeat(255), '☃'.repeat(85), '..a', 'a.')),
        (name) => {
          const wellFormed = name.replaceAll('/', '').toWellFormed();
          fc.pre(nameProblem(wellFormed) === null);
          const names = candidateNames(wellFormed, '0190a7c2-6e0f-7c6b-9a51-0e6a3f1f8a11');
          expect(new Set(names).size).toBe(names.length);
          expect(names.map(nameProblem)).toEqual(names.map(() => null));
        },
      ),
    );
  });
});
