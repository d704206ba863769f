import { randomBytes } from 'node:crypto';

import { LatelySealed } from './lately-sealed.ts';

describe('a text that was sealed just now', () => {
  let lately: LatelySealed;
  const sealed = (ct = randomBytes(40).toString('base64')) => ({ v: 1 as const, key: 1, iv: randomBytes(12).toString('base64'), ct });
  const added = (plain: string) => {
    const value = sealed();
    lately.add('agent', 'place', value, plain);
    return value;
  };

  beforeEach(() => {
    jest.useFakeTimers();
    lately = new LatelySealed();
  });
  afterEach(() => jest.useRealTimers());

  it('is handed over once', () => {
    const value = added('hello');
    expect(lately.consume('agent', 'place', { ...value })).toBe('hello');
    expect(lately.consume('agent', 'place', value)).toBeNull();
  });

  it('is handed over for exactly its ciphertext, in its own place', () => {
    const value = added('hello');
    const other = added('another');
    const bit = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1);
    expect(lately.consume('agent', 'place', { ...value, ct: bit(value.ct) })).toBeNull();
    expect(lately.consume('agent', 'place', { ...value, ct: other.ct })).toBeNull();
    expect(lately.consume('agent', 'place', { ...value, iv: bit(value.iv) })).toBeNull();
    expect(lately.consume('another', 'place', value)).toBeNull();
    expect(lately.consume('agent', 'elsewhere', value)).toBeNull();
    expect(lately.consume('agent', 'place', value)).toBe('hello');
  });

  it('is kept for ten seconds', async () => {
    const first = added('first');
    await jest.advanceTimersByTimeAsync(6_000);
    const second = added('second');
    await jest.advanceTimersByTimeAsync(4_000);
    expect(lately.consume('agent', 'place', first)).toBeNull();
    await jest.advanceTimersByTimeAsync(5_999);
    expect(lately.consume('agent', 'place', second)).toBe('second');
    const third = added('third');
    await jest.advanceTimersByTimeAsync(10_000);
    expect(lately.consume('agent', 'place', third)).toBeNull();
  });

  it('is kept if it takes 16 KiB at most, and reads the same after it was decrypted', () => {
    expect(lately.consume('agent', 'place', added('x'.repeat(8_192)))).toBe('x'.repeat(8_192));
    expect(lately.consume('agent', 'place', added('x'.repeat(8_193)))).toBeNull();
    expect(lately.consume('agent', 'place', added('a lone \uD800'))).toBeNull();
  });

  it('is dropped for later ones beyond 8 MiB in all', () => {
    const texts = Array.from({ length: 600 }, (_, n) => ({ value: added('x'.repeat(8_000)), n }));
    const kept = texts.filter(({ value }) => lately.consume('agent', 'place', value) !== null);
    expect(kept[0]?.n).toBe(600 - kept.length);
    expect(kept.length * 16_000).toBeGreaterThan(7 * 1_024 * 1_024);
    expect(kept.length * 16_000).toBeLessThan(8 * 1_024 * 1_024);
  });
});
