import fc from 'fast-check';

import { FairQueue, type Place } from './fair-queue.ts';

function queueOf(items: string): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const item of items.split(' ')) queue.enqueue(item.charAt(0), item);
  return queue;
}

function drain(queue: FairQueue<string>): string {
  const items: string[] = [];
  for (let item = queue.dequeue(); item !== undefined; item = queue.dequeue()) items.push(item);
  return items.join(' ');
}

describe('a fair queue', () => {
  it('gives the accounts turns, and each account’s items in the order in which they came', () => {
    expect(drain(queueOf('a1 a2 a3 b1 b2 c1'))).toBe('a1 b1 c1 a2 b2 a3');
  });

  it('gives an account’s items that are ahead before its others, and takes no turn of another account for them', () => {
    const queue = queueOf('a1 b1');
    queue.enqueue('b', 'b2', true);
    queue.enqueue('b', 'b3', true);
    expect(drain(queue)).toBe('a1 b2 b3 b1');
  });

  it('passes over an account that is paused, and gives it turns again once it is resumed', () => {
    const queue = queueOf('a1 a2 b1');
    queue.pause('a');
    expect([queue.peek(), queue.dequeue(), queue.dequeue(), queue.isReady, queue.size]).toEqual(['b1', 'b1', undefined, false, 2]);
    queue.resume('a');
    expect(drain(queue)).toBe('a1 a2');
  });

  const names = ['a', 'b', 'c'];
  const anyAccount = fc.constantFrom(...names);
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant('enqueue' as const), account: anyAccount, ahead: fc.boolean() }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('dequeue' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), index: fc.nat(50) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const), account: anyAccount }) },
  );

  /** A slow queue that is easy to see to be right. */
  class Model {
    turns: string[] = [];
    items: { account: string; id: number; ahead: boolean }[] = [];
    readonly paused = new Set<string>();

    get next() {
      const own = this.items.filter(({ account }) => account === this.turns[0]);
      return own.find(({ ahead }) => ahead) ?? own[0];
    }

    settle(): void {
      const has = (name: string) => !this.paused.has(name) && this.items.some(({ account }) => account === name);
      this.turns = this.turns.filter(has);
      for (const name of names) if (has(name) && !this.turns.includes(name)) this.turns.push(name);
    }
  }

  it('does what a list of all items would, in whatever order it is used', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const queue = new FairQueue<number>();
        const model = new Model();
        const places: Place<number>[] = [];
        for (const each of steps) {
          if (each.do === 'enqueue') {
            const id = places.length;
            places.push(queue.enqueue(each.account, id, each.ahead));
            model.items.push({ account: each.account, id, ahead: each.ahead });
          } else if (each.do === 'dequeue') {
            const expected = model.next;
            expect(queue.dequeue()).toBe(expected?.id);
            model.items = model.items.filter((item) => item !== expected);
            if (expected !== undefined) model.turns.shift();
          } else if (each.do === 'remove') {
            const place = places[each.index % Math.max(1, places.length)];
            if (place !== undefined) queue.remove(place);
            model.items = model.items.filter(({ id }) => id !== place?.item);
          } else {
            queue[each.do](each.account);
            if (each.do === 'pause') model.paused.add(each.account);
            else model.paused.delete(each.account);
          }
          model.settle();
          expect([queue.peek(), queue.isReady, queue.size]).toEqual([model.next?.id, model.turns.length > 0, model.items.length]);
          for (const name of names) expect(queue.sizeOf(name)).toBe(model.items.filter((item) => item.account === name).length);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('serves an account’s next item after at most one of each other account, however many items those have', () => {
    const backlog = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e'), fc.integer({ min: 1, max: 20 }), { minKeys: 1 });
    fc.assert(
      fc.property(backlog, (counts) => {
        const queue = new FairQueue<string>();
        for (const [name, count] of Object.entries(counts)) for (let n = 0; n < count; n += 1) queue.enqueue(name, name);
        const passedOver: Record<string, number> = {};
        for (let served = queue.dequeue(); served !== undefined; served = queue.dequeue()) {
          expect(passedOver[served] ?? 0).toBeLessThan(Object.keys(counts).length);
          for (const name of Object.keys(counts)) passedOver[name] = name === served ? 0 : (passedOver[name] ?? 0) + 1;
        }
      }),
    );
  });
});
