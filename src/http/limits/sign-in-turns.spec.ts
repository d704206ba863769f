import fc from 'fast-check';

import { nextTurn, QUEUE_MS_MAX, TURN_EVERY_MS, TURN_KEPT_MS, TURNS_AT_ONCE, type Turns } from './sign-in-turns.ts';

/** The tries for one account. */
class Tries {
  queueEnd = 0;
  readonly places = new Map<number, number | null>();
  /** The times of the tries that were let in. */
  readonly let: number[] = [];

  /** Returns the caller's wait in ms. */
  by(caller: number, now: number): number {
    const standing: Turns = { queueEnd: this.queueEnd, place: this.places.get(caller) ?? null };
    const { waitMs, queueEnd, place } = nextTurn(now, standing);
    this.queueEnd = queueEnd;
    this.places.set(caller, place);
    if (waitMs === 0) this.let.push(now);
    return waitMs;
  }
}

const owner = 0;

it('lets a new caller in at the time that it is told, however many others try meanwhile', () => {
  const attackers = fc.integer({ min: 1, max: 400 });
  const pauses = fc.array(fc.integer({ min: 0, max: 2_000 }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(attackers, pauses, (count, between) => {
      const tries = new Tries();
      let now = 1_000_000;
      const attack = (until: number) => {
        for (let n = 0; now < until; n += 1) {
          for (let attacker = 1; attacker <= count; attacker += 1) tries.by(attacker, now);
          now = Math.min(until, now + 100 + (between[n % between.length] ?? 0));
        }
      };
      attack(now + 20_000);
      const waitMs = tries.by(owner, now);
      expect(waitMs).toBeLessThanOrEqual((count + 1) * TURN_EVERY_MS);
      // A caller that need not wait has had its turn already.
      if (waitMs === 0) return;
      attack(now + waitMs);
      expect(tries.by(owner, now)).toBe(0);
    }),
    { numRuns: 30, examples: [[3, [565, 1384]]] },
  );
});

it('lets no more in than 100 a minute after the first ones, whoever tries', () => {
  const asked = fc.array(fc.tuple(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 3_000 })), { maxLength: 1_000 });
  fc.assert(
    fc.property(asked, (all) => {
      const tries = new Tries();
      let now = 1_000_000;
      for (const [caller, pause] of all) tries.by(caller, (now += pause));
      const [first = 0] = tries.let;
      // A turn that was kept may be used later than it came, together with others.
      const kept = TURN_KEPT_MS / TURN_EVERY_MS;
      expect(tries.let.length).toBeLessThanOrEqual(TURNS_AT_ONCE + 1 + kept + (now - first) / TURN_EVERY_MS);
    }),
    { numRuns: 50 },
  );
});

it('tells a caller that comes too early the rest of its wait, and gives it no second place', () => {
  const tries = new Tries();
  for (let attacker = 1; attacker <= 200; attacker += 1) tries.by(attacker, 1_000);
  const waitMs = tries.by(owner, 1_000);
  const { queueEnd } = tries;
  expect(tries.by(owner, 2_000)).toBe(waitMs - 1_000);
  expect(tries.queueEnd).toBe(queueEnd);
});

it('gives no places beyond the longest wait', () => {
  const tries = new Tries();
  const callers = QUEUE_MS_MAX / TURN_EVERY_MS + TURNS_AT_ONCE + 50;
  const waits = Array.from({ length: callers }, (_, caller) => tries.by(caller, 1_000));
  expect([...tries.places.values()].filter((place) => place !== null)).toHaveLength(QUEUE_MS_MAX / TURN_EVERY_MS);
  expect(waits.at(-1)).toBeGreaterThan(QUEUE_MS_MAX);
});
