import { expectLinear, filled } from '../../../../test/support/growth.ts';
import { Redaction } from './redaction.ts';

describe('a line of a build log', () => {
  it('shows no secret and no line of one, in any of its spellings', () => {
    const redaction = new Redaction(['pa ss/word', 'pa ss/word-and-more', '-----KEY-----\r\nabcdef\nghijkl', 'abc']);
    const written = [
      'pa ss/word',
      'pa ss/word-and-more',
      'pa%20ss%2Fword',
      'abcdef',
      'ghijkl',
      Buffer.from('pa ss/word').toString('base64'),
    ];
    expect(written.map((each) => redaction.redact(`<${each}>`)).join()).not.toMatch(/word|more|abcdef|ghijkl|cGEg|%2F/);
    expect(redaction.redact('pa ss/word-and-more pa ss/word')).toBe('•••••••• ••••••••');
    // Shorter than four characters, it would mask half of every log.
    expect(redaction.redact('an abc of it')).toBe('an abc of it');
  });

  it('is not shown while the secrets are not known, or too many to look for', () => {
    const lines = Array.from({ length: 10_000 }, (_, at) => `line ${at}`).join('\n');
    for (const secrets of [null, [lines]]) expect(new Redaction(secrets).redact('npm install')).toMatch(/^This line is not shown/);
  });

  it('costs time of its length alone, whatever the secrets begin with', () => {
    const secrets = Array.from({ length: 1_500 }, (_, at) => `aaaa${at}`);
    const redaction = new Redaction(secrets);
    expectLinear(
      (size) => filled('a', size),
      (text) => expect(redaction.redact(text)).toBe(text),
      64 * 1024,
    );
  });
});
