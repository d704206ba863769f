import { normaliseBatch } from './normalise-batch.ts';

const normalised = (body: unknown) => normaliseBatch(body, { width: 1280, height: 800 });

describe('the text of an action', () => {
  it('has up to 10,000 characters, of which each counts once', () => {
    const emoji = '\u{1F600}'.repeat(10_000);
    expect(normalised({ action: 'type', text: emoji })).toMatchObject({ batch: { steps: [{ action: { kind: 'type', text: emoji } }] } });
    for (const text of [`${emoji}a`, 'a'.repeat(10_001)])
      expect(normalised({ action: 'type', text })).toMatchObject({ code: 'invalid_action', errors: [{ index: 0, field: 'text' }] });
  });

  it('may name many keys, as long as they are pressed 10,000 times at most', () => {
    const text = Array.from({ length: 500 }, () => 'Down').join(' ');
    expect(normalised({ action: 'key', text, repeat: 20 })).toMatchObject({
      batch: { steps: [{ action: { kind: 'keys', repeat: 20, chords: { length: 500 } } }] },
    });
    expect(normalised({ action: 'key', text, repeat: 21 })).toMatchObject({
      code: 'invalid_action',
      errors: [{ index: 0, field: 'repeat' }],
    });
    expect(normalised({ action: 'left_click', key: text })).toMatchObject({ code: 'invalid_action' });
  });

  it('is refused once, however many of the keys that it names are unknown', () => {
    const actions = Array.from({ length: 50 }, () => ({ action: 'key', text: 'Nope '.repeat(2_000) }));
    expect(normalised({ actions })).toMatchObject({ code: 'unknown_key', errors: { length: 50 } });
  });
});
