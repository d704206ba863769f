import fc from 'fast-check';
import { EventStreamParser, type ReceivedEvent } from './event-stream-parser.ts';

/** Returns the events in the pieces; `too long` stands for the end at an event that is. */
function read(pieces: readonly Buffer[], lengthMax = 1_000): (ReceivedEvent | 'too long')[] {
  const events: (ReceivedEvent | 'too long')[] = [];
  const parser = new EventStreamParser(
    lengthMax,
    (event) => events.push(event),
    () => events.push('too long'),
  );
  for (const piece of pieces) {
    parser.push(piece);
    if (events.at(-1) === 'too long') break;
  }
  return events;
}

const text = (...lines: string[]) => [Buffer.from(lines.join('\n'))];

describe('a stream of events', () => {
  it('parses the name and the data of each event', () => {
    expect(read(text('event: a', 'data: 1', '', 'data:2', 'data: 3', '', ''))).toEqual([
      { event: 'a', data: '1' },
      { event: 'message', data: '2\n3' },
    ]);
  });

  it('passes over comments, unknown fields, events without data, and an event that never ends', () => {
    expect(read(text(': here', 'id: 7', 'retry', '', 'event: empty', '', 'data: x', '', 'data: cut off'))).toEqual([
      { event: 'message', data: 'x' },
    ]);
  });

  it('ends at an event that is too long, in one line or in many', () => {
    expect(read([Buffer.from(`data: ${'x'.repeat(100)}`)], 100)).toEqual(['too long']);
    expect(
      read(
        Array.from({ length: 100 }, () => Buffer.from('data: x\n')),
        100,
      ),
    ).toEqual(['too long']);
    expect(
      read(
        Array.from({ length: 100 }, () => Buffer.from('data: x\n\n')),
        100,
      ),
    ).toHaveLength(100);
  });

  it('is read alike in pieces of any size, with any kind of line end', () => {
    const line = fc.string({ unit: 'grapheme', maxLength: 12 }).map((each) => each.replaceAll(/[\r\n\uFEFF]/g, '').toWellFormed());
    const event = fc.record({ name: line, data: fc.array(line, { minLength: 1, maxLength: 3 }) });
    const ends = fc.constantFrom('\n', '\r\n', '\r');
    fc.assert(
      fc.property(fc.array(event, { maxLength: 5 }), ends, fc.infiniteStream(fc.integer({ min: 1, max: 9 })), (events, end, sizes) => {
        const lines = events.flatMap(({ name, data }) => [`event: ${name}`, ...data.map((each) => `data: ${each}`), '']);
        const bytes = Buffer.from(lines.map((each) => each + end).join(''));
        const pieces: Buffer[] = [];
        for (let at = 0; at < bytes.length;) {
          const size = sizes.next().value as number;
          pieces.push(bytes.subarray(at, at + size));
          at += size;
        }
        const expected = events.map(({ name, data }) => ({ event: name === '' ? 'message' : name, data: data.join('\n') }));
        expect(read(pieces)).toEqual(expected);
      }),
    );
  });
});
