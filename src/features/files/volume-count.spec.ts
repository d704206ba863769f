import fc from 'fast-check';

import { VolumeCount } from './volume-count.ts';

const MOST = 1_000;
const UNMEASURED = 50;

type Act =
  | { kind: 'begin'; bytes: number }
  | { kind: 'end'; write: number; isStored: boolean }
  | { kind: 'measure' | 'measured' | 'unmeasured' }
  | { kind: 'remove'; bytes: number };

const acts: fc.Arbitrary<Act> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('begin' as const), bytes: fc.nat(300) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('end' as const), write: fc.nat(), isStored: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('measure' as const, 'measured' as const, 'unmeasured' as const) }) },
  fc.record({ kind: fc.constant('remove' as const), bytes: fc.nat(300) }),
);

/** A volume and its count. A measurement sees the volume at any time between its beginning and its end. */
class Volume {
  readonly count = new VolumeCount(MOST, UNMEASURED);
  private readonly writes: number[] = [];
  private measuring: { seen: number } | null = null;

  constructor(public stored: number) {}

  get held(): number {
    return this.writes.reduce((sum, bytes) => sum + bytes, this.stored);
  }

  do(act: Act): void {
    if (act.kind === 'begin') {
      if (this.count.reserve(act.bytes)) this.writes.push(act.bytes);
    } else if (act.kind === 'end') {
      const [bytes] = this.writes.splice(act.write % Math.max(1, this.writes.length), 1);
      if (bytes === undefined) return;
      this.count.endWrite(bytes, act.isStored);
      if (act.isStored) this.stored += bytes;
    } else if (act.kind === 'measure' && this.measuring === null) {
      this.count.beginMeasuring();
      this.measuring = { seen: this.stored };
    } else if (act.kind === 'remove') {
      this.stored -= Math.min(act.bytes, this.stored);
      // A measurement may still have seen the bytes that are removed while it is made.
      if (this.measuring !== null) this.measuring.seen = Math.max(this.measuring.seen, this.stored);
    } else if (this.measuring !== null) {
      this.count.endMeasuring(act.kind === 'measured' ? this.measuring.seen : null);
      this.measuring = null;
    }
  }
}

describe('the count of a volume', () => {
  it('lets no writes get beyond the bound, however they and the measurements overlap', () => {
    fc.assert(
      fc.property(fc.nat(2 * MOST), fc.array(acts, { maxLength: 60, size: 'max' }), (stored, all) => {
        const volume = new Volume(stored);
        for (const act of all) {
          volume.do(act);
          expect(volume.held).toBeLessThanOrEqual(Math.max(MOST, stored + UNMEASURED));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('has the whole quota again once all writes have failed', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(300), { maxLength: 20 }), fc.boolean(), (writes, isMeasured) => {
        const count = new VolumeCount(MOST, MOST);
        const reserved = writes.filter((bytes) => count.reserve(bytes));
        if (isMeasured) {
          count.beginMeasuring();
          count.endMeasuring(0);
        }
        for (const bytes of reserved) count.endWrite(bytes, false);
        expect(count.reserve(MOST)).toBe(true);
        expect(count.reserve(1)).toBe(false);
      }),
    );
  });

  it('allows only a few bytes before the volume is measured, and the rest of the quota afterwards', () => {
    const count = new VolumeCount(MOST, UNMEASURED);
    expect(count.reserve(UNMEASURED + 1)).toBe(false);
    expect(count.reserve(UNMEASURED)).toBe(true);
    expect(count.reserve(1)).toBe(false);
    count.endWrite(UNMEASURED, true);
    count.beginMeasuring();
    count.endMeasuring(600 + UNMEASURED);
    expect(count.reserve(351)).toBe(false);
    expect(count.reserve(350)).toBe(true);
  });
});
