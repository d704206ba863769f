import { changesSince } from './changes-since.ts';
import type { StoredEvent } from '../event-store/event-store.ts';

/** A stream of these words, the newest first: a letter changes that key, `-` changes none, and `|` is the moment. */
async function* streamOf(words: string): AsyncGenerator<StoredEvent> {
  for (const word of words) yield { type: word } as StoredEvent;
}

const found = async (words: string) => {
  const changes = await changesSince(
    streamOf(words),
    ({ type }) => (/[a-z]/.test(type) ? type : null),
    ({ type }) => type === '|',
  );
  return changes === null ? null : [changes.events.map(({ type }) => type).join(''), changes.isReached];
};

describe('what has changed since a moment', () => {
  it.each([
    ['with what it took the place of', 'ab|cba', 'abba'],
    ['each time that it changed', 'aa-a|a', 'aaaa'],
    ['and nothing that changed before alone', '-|abc', ''],
    ['though it was not there before', 'a|bc', 'a'],
  ])('is found %s', async (_, words, events) => {
    expect(await found(words)).toEqual([events, true]);
  });

  it('is everything if the stream begins later', async () => {
    expect(await found('ab-')).toEqual(['ab', false]);
  });

  it('is not looked for beyond 10,000 events', async () => {
    expect(await found(`${'-'.repeat(9_999)}|`)).toEqual(['', true]);
    expect(await found(`a${'-'.repeat(10_000)}|`)).toBeNull();
  });
});
