import type { Decider } from '../event-store/event-definition.ts';
import type { StoredEvent } from '../event-store/event-store.ts';
import { DERIVED_IDS_MAX, DerivedIds } from './derived-ids.ts';
import { sizeOf } from './size.ts';
import { StateCache } from './state-cache.ts';
import { absentState, type StreamState } from './stream-state.ts';

const MIB = 1024 * 1024;
const text: Decider<string, string, { type: string; data: { text: string } }> = {
  initialState: () => '',
  decide: (added) => [{ type: 'Added', data: { text: added } }],
  evolve: (state, { data }) => state + data.text,
};
const stateOf = (bytes: number, account = 'a', revision = 0): StreamState<string> => ({
  ...absentState(text),
  state: 'x'.repeat(bytes),
  revision,
  account,
});

describe('The cache of streams’ states', () => {
  it('holds at most its limit of bytes, and evicts the least recently used', () => {
    const cache = new StateCache(MIB);
    for (let stream = 0; stream < 30; stream += 1) {
      cache.put(`s-${stream}`, text, stateOf(100_000, `account-${stream}`));
      cache.get('s-0', text);
      expect(cache.bytes).toBeLessThanOrEqual(MIB);
    }
    const kept = Array.from({ length: 30 }, (_, stream) => stream).filter((stream) => cache.get(`s-${stream}`, text) !== undefined);
    expect(kept).toEqual([0, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
  });

  it('does not cache a state that would take a large part of it, and evicts one that grows to that', () => {
    const cache = new StateCache(MIB);
    cache.put('s-1', text, stateOf(50_000));
    cache.put('s-2', text, stateOf(300_000));
    expect([cache.get('s-1', text), cache.get('s-2', text)]).toEqual([expect.anything(), undefined]);
    const grown = { data: { text: 'x'.repeat(250_000) } } as unknown as StoredEvent;
    cache.advance('s-1', text, stateOf(300_000, 'a', 1), [grown]);
    expect(cache.get('s-1', text)).toBeUndefined();
    expect(cache.bytes).toBe(0);
  });

  it('evicts states of the same account if that account holds a large part of it', () => {
    const cache = new StateCache(MIB);
    for (let stream = 0; stream < 5; stream += 1) cache.put(`quiet-${stream}`, text, stateOf(50_000, 'quiet'));
    for (let stream = 0; stream < 100; stream += 1) cache.put(`busy-${stream}`, text, stateOf(100_000, 'busy'));
    for (let stream = 0; stream < 5; stream += 1) expect(cache.get(`quiet-${stream}`, text)).toBeDefined();
    expect(cache.get('busy-99', text)).toBeDefined();
  });

  it('counts a state that grows by small events at its final size', () => {
    const cache = new StateCache(64 * MIB);
    let state = stateOf(0, 'a', 0);
    cache.put('s-1', text, state);
    for (let revision = 1; revision <= 1_000; revision += 1) {
      const event = { data: { text: 'x'.repeat(1_000) } } as unknown as StoredEvent;
      state = { ...state, state: text.evolve(state.state, event as never), revision };
      cache.advance('s-1', text, state, [event]);
    }
    expect(cache.bytes).toBeGreaterThan(1_000_000);
    expect(cache.bytes).toBeLessThan(1_400_000);
    cache.clear();
    expect(cache.bytes).toBe(0);
  });
});

describe('The estimate of the memory that a value takes', () => {
  it('grows with texts, members, entries and bytes', () => {
    expect(sizeOf('x'.repeat(1_000))).toBeGreaterThan(1_000);
    expect(sizeOf({ a: ['x'.repeat(1_000), { b: 'y'.repeat(500) }] })).toBeGreaterThan(1_500);
    expect(sizeOf(new Map([['k'.repeat(100), { v: 'v'.repeat(400) }]]))).toBeGreaterThan(500);
    expect(sizeOf(Buffer.alloc(10_000))).toBeGreaterThan(10_000);
    expect(sizeOf(null)).toBe(0);
  });
});

describe('The ids of a stream’s records', () => {
  const derived = (number: number) => `00000000-0000-5000-8000-${String(number).padStart(12, '0')}`;

  it('are the latest derived ones, and no others', () => {
    const ids = DerivedIds.none.with(['01890a5d-ac96-774b-bcce-b302099a8001', derived(1)]);
    expect([ids.has(derived(1)), ids.has(derived(2)), ids.has('01890a5d-ac96-774b-bcce-b302099a8001')]).toEqual([true, false, false]);
    const many = ids.with(Array.from({ length: DERIVED_IDS_MAX }, (_, number) => derived(number + 10)));
    expect([many.has(derived(1)), many.has(derived(10)), many.has(derived(DERIVED_IDS_MAX + 9))]).toEqual([false, true, true]);
    expect(many.byteLength).toBe(DERIVED_IDS_MAX * 16);
    expect(ids.has(derived(1))).toBe(true);
  });

  it('survive serialisation', () => {
    const ids = DerivedIds.parse(DerivedIds.none.with([derived(1), derived(2)]).toString());
    expect([ids.has(derived(1)), ids.has(derived(2)), ids.has(derived(3))]).toEqual([true, true, false]);
  });

  it('are not found across the boundary of two others', () => {
    const ids = DerivedIds.none.with(['11111111-1111-5111-8111-111111111122', '22222222-2222-5222-8222-222222222222']);
    expect(ids.has('11111111-1111-1111-1111-112222222222')).toBe(false);
  });
});
