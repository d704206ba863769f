import fc from 'fast-check';
import { Generations } from './generations.ts';

describe('the generations that are looked up by name', () => {
  it('are all up to the wanted one if nothing is known and they are few', () => {
    expect(new Generations().possible('a', 3)).toEqual([1, 2, 3]);
  });

  it('are not named one by one if they are many', () => {
    expect(new Generations().possible('a', 40)).toBeNull();
  });

  it('begin at the oldest that the last look found', () => {
    const generations = new Generations();
    generations.setFound('a', 40, [39]);
    expect(generations.possible('a', 41)).toEqual([39, 40, 41]);
    generations.setFound('a', 41, []);
    expect(generations.possible('a', 41)).toEqual([41]);
  });

  it('are looked up by label as long as a container has another name', () => {
    const generations = new Generations();
    generations.evict('a');
    generations.add('a', 1);
    expect(generations.possible('a', 1)).toBeNull();
    generations.setFound('a', 1, [1]);
    expect(generations.possible('a', 1)).toEqual([1]);
  });

  it('contain every existing container, whatever is created, listed, removed and inspected', () => {
    const act = fc.oneof(
      fc.record({ do: fc.constant('look' as const) }),
      fc.record({ do: fc.constant('next' as const), by: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ do: fc.constant('make' as const), here: fc.boolean() }),
      fc.record({ do: fc.constant('remove' as const) }),
      fc.record({ do: fc.constant('late' as const), generation: fc.integer({ min: 1, max: 30 }) }),
      fc.record({ do: fc.constant('restart' as const) }),
    );
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
        let generations = new Generations();
        const standing = new Set<number>();
        let wanted = 1;
        for (const each of acts) {
          const looked = generations.possible('a', wanted) ?? [...standing];
          const missed = [...standing].filter((generation) => !looked.includes(generation));
          expect(missed).toEqual([]);
          if (each.do === 'look') generations.setFound('a', wanted, [...standing]);
          if (each.do === 'next') wanted += each.by;
          if (each.do === 'remove') standing.clear();
          if (each.do === 'restart') generations = new Generations();
          if (each.do === 'make') {
            // Another replica's saga may have created it.
            if (each.here) generations.add('a', wanted);
            standing.add(wanted);
          }
          // Another process created it late, and then the list found it.
          if (each.do === 'late' && each.generation <= wanted) {
            standing.add(each.generation);
            for (const generation of standing) generations.add('a', generation);
          }
        }
      }),
    );
  });
});
