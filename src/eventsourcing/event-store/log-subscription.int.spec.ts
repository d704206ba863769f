import { setImmediate as turn } from 'node:timers/promises';

import fc from 'fast-check';

import { untilTrue } from '../../../test/support/until.ts';
import { START, type Position, type QuietHandler, type StoredEvent } from './event-store.ts';
import type { Batch } from './events-up-to.ts';
import { HeadWatch, LogSubscription } from './log-subscription.ts';

const positionOf = (n: number): Position => String(n).padStart(20, '0');

/** A log in memory. `isKept` says whether its events are at hand without a read. */
class MemoryLog {
  readonly events: StoredEvent[] = [];
  readonly watch = new HeadWatch(async () => this.head);
  reads = 0;
  isKept = true;

  constructor(private readonly type: string) {}

  get head(): Position {
    return this.events.at(-1)?.position ?? START;
  }

  append(...types: string[]): void {
    for (const type of types) this.events.push({ type, position: positionOf(this.events.length + 1) } as StoredEvent);
    this.watch.notify(this.head);
  }

  async read(after: Position): Promise<Batch> {
    this.reads += 1;
    await turn();
    return this.after(after);
  }

  kept(after: Position): Batch | null {
    return this.isKept ? this.after(after) : null;
  }

  private after(after: Position): Batch {
    const events = this.events.filter(({ position, type }) => position > after && type === this.type);
    return { events, upTo: this.head > after ? this.head : after };
  }
}

/** Follows the events `mine` of a log. */
function followed(onQuiet: QuietHandler) {
  const log = new MemoryLog('mine');
  const seen: Position[] = [];
  const batches: Position[] = [];
  const quiet: Position[] = [];
  const onBatch = async (events: StoredEvent[], upTo: Position) => {
    seen.push(...events.map(({ position }) => position));
    batches.push(upTo);
    await turn();
  };
  const subscription = new LogSubscription(log, START, onBatch, (events, upTo) => {
    const isQuiet = onQuiet(events, upTo);
    if (isQuiet) quiet.push(upTo);
    return isQuiet;
  });
  return { log, seen, batches, quiet, subscription };
}

/** Resolves when the subscriber waits at the head. */
const atHead = async ({ log, batches, quiet }: ReturnType<typeof followed>) => {
  const last = log.head;
  await untilTrue(() => batches.at(-1) === last || quiet.at(-1) === last);
  for (let n = 0; n < 5; n += 1) await turn();
};

describe('a subscriber at the end of the log', () => {
  it('moves over what does not concern it within the append, without a read', async () => {
    const each = followed((events) => events.length === 0);
    each.log.append('mine');
    await atHead(each);
    const { reads } = each.log;
    each.log.append('other');
    each.log.append('other', 'other');
    expect(each.quiet).toEqual([positionOf(2), positionOf(4)]);
    expect(each.log.reads).toBe(reads);
    each.log.append('mine');
    await atHead(each);
    expect(each.seen).toEqual([positionOf(1), positionOf(5)]);
    await each.subscription.stop();
  });

  it('reads what is not in memory, and what its handler could not look at', async () => {
    let fails = false;
    const each = followed((events) => {
      if (fails) throw new Error('not now');
      return events.length === 0;
    });
    each.log.append('mine');
    await atHead(each);
    each.log.isKept = false;
    each.log.append('other');
    await atHead(each);
    each.log.isKept = true;
    fails = true;
    each.log.append('other');
    await atHead(each);
    expect(each.quiet).toEqual([]);
    expect(each.batches).toEqual([positionOf(1), positionOf(2), positionOf(3)]);
    await each.subscription.stop();
  });

  it('gets each of its events once and in order, however appends, reads and moves meet', async () => {
    const step = fc.record({
      types: fc.array(fc.constantFrom('mine', 'other'), { minLength: 1, maxLength: 4 }),
      isKept: fc.boolean(),
      isQuiet: fc.boolean(),
      turns: fc.nat(4),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        let mayMove = true;
        const each = followed((events) => mayMove && events.length === 0);
        for (const { types, isKept, isQuiet, turns } of steps) {
          each.log.isKept = isKept;
          mayMove = isQuiet;
          each.log.append(...types);
          for (let n = 0; n < turns; n += 1) await turn();
        }
        each.log.append('mine');
        const wanted = each.log.events.filter(({ type }) => type === 'mine').map(({ position }) => position);
        await untilTrue(() => each.seen.length >= wanted.length);
        expect(each.seen).toEqual(wanted);
        const moves = [...each.batches, ...each.quiet];
        expect(new Set(moves).size).toBe(moves.length);
        await each.subscription.stop();
      }),
      { numRuns: 60 },
    );
  });
});
