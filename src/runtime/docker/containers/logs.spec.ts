import fc from 'fast-check';

import { frame } from '../../../../test/support/fake-docker-engine/logs.ts';
import type { LogCursor, LogLine } from '../../runtime.ts';
import { frames, type Frame } from '../engine/frames.ts';
import { LINE_BYTES_MAX } from '../../long-line.mjs';
import { linesAfter } from './logs.ts';

type Written = [stream: 'stdout' | 'stderr', nanoseconds: number, text: string];

const stamp = (nanoseconds: number): string => `2026-01-02T03:04:05.${String(nanoseconds).padStart(9, '0')}Z`;

async function* framed(written: Written[]): AsyncGenerator<Frame> {
  for (const [stream, nanoseconds, text] of written) yield { stream, payload: Buffer.from(`${stamp(nanoseconds)} ${text}`) };
}

async function read(written: Written[], from: LogCursor | null = null, reading: Parameters<typeof linesAfter>[3] = {}): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for await (const line of linesAfter(framed(written), 1, from, reading)) lines.push(line);
  return lines;
}

/** Returns what the engine gives of an output when it is asked for what is no older than a second before this. */
const since = (written: Written[], { time, open = time }: LogCursor): Written[] => {
  const nanoseconds = Number((open < time ? open : time).slice(20, 29));
  return written.filter(([, at]) => at >= nanoseconds);
};

const texts = (lines: LogLine[]): string[] => lines.map(({ text }) => text);

describe('a container’s lines', () => {
  it('count bytes that are read and not yielded: the pieces of a line without end, and lines before the cursor', async () => {
    const piece = 'x'.repeat(16 * 1024);
    const endless: Written[] = Array.from({ length: 40 }, (_, at) => ['stdout', at, piece]);
    let counted = 0;
    let reserved = 0;
    const bounds = {
      pace: (bytes: number) => {
        counted += bytes;
        return null;
      },
      reserve: (bytes: number) => {
        reserved += bytes;
        return () => (reserved -= bytes);
      },
    };
    const lines: LogLine[] = [];
    const from = { generation: 1, time: stamp(0), count: 1 };
    const source = framed([['stdout', 0, 'seen\n'], ...endless]);
    for await (const line of linesAfter(source, 1, from, { bounds })) lines.push(line);
    expect(lines).toEqual([]);
    expect(counted).toBe(40 * piece.length + 'seen'.length);
    expect(reserved).toBe(0);
  });

  it('resume after any line without loss or repetition, although many have the same time', async () => {
    const written: Written[] = Array.from({ length: 60 }, (_, at) => ['stdout', Math.floor(at / 20), `line ${at}\n`]);
    const all = await read(written);
    expect(all).toHaveLength(60);
    for (const [at, { cursor }] of all.entries()) expect(texts(await read(written, cursor))).toEqual(texts(all.slice(at + 1)));
  });

  it('resume after any line although the two streams have timestamps out of order', async () => {
    const written: Written[] = [
      ['stdout', 10, 'a\n'],
      ['stderr', 30, 'b\n'],
      ['stdout', 20, 'c\n'],
      ['stdout', 30, 'd\n'],
      ['stderr', 25, 'e\n'],
      ['stdout', 40, 'f\n'],
    ];
    const all = await read(written);
    expect(texts(all)).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
    for (const [at, { cursor }] of all.entries()) expect(texts(await read(written, cursor))).toEqual(texts(all.slice(at + 1)));
    expect(all.map(({ cursor }) => cursor.time)).toEqual([10, 30, 30, 30, 30, 40].map(stamp));
  });

  it('mark that lines may be missing if the line of the cursor is gone', async () => {
    const written: Written[] = Array.from({ length: 10 }, (_, at) => ['stdout', at, `line ${at}\n`]);
    const all = await read(written);
    const from = (all[3] as LogLine).cursor;
    for (const kept of [4, 5, 9]) {
      const [first, ...rest] = await read(written.slice(kept), from);
      expect(JSON.parse(first?.text ?? '')).toEqual({
        level: 'warning',
        message: expect.stringMatching(/^Lines of output may be missing here/),
      });
      expect(first?.cursor).toEqual(from);
      expect(texts(rest)).toEqual(texts(all.slice(kept)));
    }
    expect(texts(await read(written.slice(3), from))).toEqual(texts(all.slice(4)));
    expect(await read(written.slice(9), (all[9] as LogLine).cursor)).toEqual([]);
  });

  describe('of more than 16 KiB', () => {
    const piece = 'x'.repeat(16 * 1024);
    const written: Written[] = [
      ['stdout', 1, piece],
      ['stderr', 2, 'between\n'],
      ['stdout', 3, piece],
      ['stderr', 4, 'later\n'],
      ['stdout', 5, 'rest\n'],
      ['stdout', 6, 'next\n'],
    ];

    it('are joined, and stand where they end', async () => {
      expect(texts(await read(written))).toEqual(['between', 'later', `${piece}${piece}rest`, 'next']);
    });

    it('are whole though a reading goes on from within them', async () => {
      const all = await read(written);
      for (const [at, { cursor }] of all.entries())
        expect(texts(await read(since(written, cursor), cursor))).toEqual(texts(all.slice(at + 1)));
    });

    it('are kept up to 256 KiB, and a mark says how much is missing', async () => {
      const long: Written[] = [
        ...Array.from({ length: 20 }, (_, at): Written => ['stdout', at, piece]),
        ['stdout', 20, 'rest\n'],
        ['stdout', 21, 'next\n'],
      ];
      const [line, next] = texts(await read(long));
      expect(line).toBe(`${piece.repeat(16)} … (cut here: ${4 * piece.length + 4} more bytes were printed)`);
      expect(next).toBe('next');
    });

    it('are cut where there is no memory for them, and the next one is whole again', async () => {
      const bounds = { pace: () => null, reserve: () => null };
      const [, , line, next] = texts(await read(written, null, { bounds }));
      expect(line).toBe(`${piece} … (cut here: ${piece.length + 4} more bytes were printed)`);
      expect(next).toBe('next');
    });

    it('wait for their end, unless the output has ended', async () => {
      const cut = written.slice(0, 3);
      expect(texts(await read(cut))).toEqual(['between']);
      expect(texts(await read(cut, null, { isOver: () => Promise.resolve(true) }))).toEqual(['between', piece + piece]);
    });

    it('are kept in their last state, if they overwrite themselves', async () => {
      const progress = Array.from({ length: 3_000 }, (_, at) => `\rdownloading shard ${at}`).join('');
      const printed = `${progress}\rRESULT: 42 files`;
      const pieces = Array.from({ length: Math.ceil(printed.length / piece.length) }, (_, at) =>
        printed.slice(at * piece.length, (at + 1) * piece.length),
      );
      const over = pieces.map((text, at): Written => ['stdout', at, at === pieces.length - 1 ? `${text}\r\n` : text]);
      expect(texts(await read(over))).toEqual(['RESULT: 42 files']);
    });
  });

  it('distinguish a last line without an end from the first line of the next start', async () => {
    const written: Written[] = [
      ['stdout', 1, 'no line end'],
      ['stdout', 2, 'started again\n'],
    ];
    expect(texts(await read(written))).toEqual(['no line end', 'started again']);
  });

  it('are valid text: no NUL, no line end, U+FFFD for what is not UTF-8, never over 256 KiB', async () => {
    const bytes = Buffer.concat([Buffer.from(`${stamp(1)} a`), Buffer.from([0, 0xff, 0xe2, 0x82]), Buffer.from('b\r\n')]);
    const long = Buffer.concat([Buffer.from(`${stamp(2)} `), Buffer.alloc(16 * 1024, 0xff)]);
    const end = Buffer.concat([Buffer.from(`${stamp(3)} `), Buffer.from('\n')]);
    async function* source(): AsyncGenerator<Frame> {
      yield { stream: 'stdout', payload: bytes };
      for (let at = 0; at < 16; at += 1) yield { stream: 'stdout', payload: long };
      yield { stream: 'stdout', payload: end };
    }
    const lines: LogLine[] = [];
    for await (const line of linesAfter(source(), 1, null)) lines.push(line);
    expect(lines[0]?.text).toBe('a\uFFFD\uFFFD\uFFFDb');
    const [kept = '', mark] = (lines[1]?.text ?? '').split(' … ');
    expect([Buffer.byteLength(kept), mark]).toEqual([
      Math.floor(LINE_BYTES_MAX / 3) * 3,
      expect.stringMatching(/^\(cut here: \d+ more bytes were printed\)$/),
    ]);
  });
});

describe('any bytes that a container prints', () => {
  /** The size of the pieces in which the engine hands on a long line. */
  const PIECE_BYTES = 16 * 1024;
  interface Print {
    stream: 'stdout' | 'stderr';
    bytes: Uint8Array;
  }

  /** Returns the frame in which the engine hands a piece on, behind its time. */
  function frameOf({ stream, bytes }: Print, nanoseconds: number): Buffer {
    return frame(stream, Buffer.concat([Buffer.from(`${stamp(nanoseconds)} `), bytes]));
  }

  /** Returns the lines of what was printed, in the pieces in which the engine hands them on. */
  function piecesOf({ stream, bytes }: Print): Print[] {
    const pieces: Print[] = [];
    for (let from = 0; from < bytes.length;) {
      const end = bytes.indexOf(0x0a, from);
      const to = Math.min(end === -1 ? bytes.length : end + 1, from + PIECE_BYTES);
      pieces.push({ stream, bytes: bytes.subarray(from, to) });
      from = to;
    }
    return pieces;
  }

  const usual = fc.uint8Array({ maxLength: 200 });
  const awkward = fc.constantFrom('\n', '\r\n', ' ', '\0', '\u001b[2J', '🚢', `${stamp(3)} `).map((text) => Buffer.from(text));
  const longLine = fc
    .tuple(fc.nat(255), fc.integer({ min: PIECE_BYTES - 4, max: 2 * PIECE_BYTES + 4 }))
    .map(([byte, size]) => Buffer.alloc(size, byte === 0x0a ? 0xff : byte));
  const printed = fc
    .array(fc.oneof({ weight: 6, arbitrary: usual }, { weight: 3, arbitrary: awkward }, { weight: 1, arbitrary: longLine }), {
      maxLength: 12,
    })
    .map((parts) => Buffer.concat([...parts, Buffer.from('\n')]));

  it('become lines that can be stored, one for each line end, wherever the connection cuts them', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ stream: fc.constantFrom('stdout' as const, 'stderr' as const), bytes: printed }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 70_000 }),
        async (prints, size) => {
          const bytes = Buffer.concat(prints.flatMap(piecesOf).map((piece, at) => frameOf(piece, at + 1)));
          async function* chunks(): AsyncGenerator<Buffer> {
            for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
          }
          const lines: LogLine[] = [];
          for await (const each of linesAfter(frames(chunks()), 1, null)) lines.push(each);
          const ends = prints.reduce((sum, print) => sum + print.bytes.filter((byte) => byte === 0x0a).length, 0);
          expect(lines).toHaveLength(ends);
          for (const { text } of lines) {
            expect([text.isWellFormed(), text.includes('\0'), text.includes('\n')]).toEqual([true, false, false]);
            // The mark of a cut line comes on top.
            const kept = text.replace(/ … \(cut here: \d+ more bytes were printed\)$/, '');
            expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(LINE_BYTES_MAX);
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('the engine’s framing', () => {
  const frameOn = (stream: Parameters<typeof frame>[0], text: string): Buffer => frame(stream, Buffer.from(text));

  it('comes apart the same wherever the bytes were cut', async () => {
    const bytes = Buffer.concat([
      frameOn('stdout', 'out'),
      frameOn('stderr', ''),
      frameOn('stderr', 'error'),
      frameOn('stdout', 'o'.repeat(40)),
    ]);
    for (let size = 1; size <= bytes.length; size += 1) {
      async function* chunks(): AsyncGenerator<Buffer> {
        for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
      }
      const seen: string[] = [];
      for await (const { stream, payload } of frames(chunks())) seen.push(`${stream}:${payload.toString()}`);
      expect(seen).toEqual(['stdout:out', 'stderr:', 'stderr:error', `stdout:${'o'.repeat(40)}`]);
    }
  });

  it('reports an end within a frame', async () => {
    async function* cut(): AsyncGenerator<Buffer> {
      yield Buffer.from([1, 0, 0, 0, 0, 0, 0, 9, 0x61]);
    }
    const reading = async (): Promise<void> => {
      for await (const each of frames(cut())) expect(each).toBeUndefined();
    };
    await expect(reading()).rejects.toThrow('does not answer');
  });

  it('distinguishes an error of the engine from output, and fails with it', async () => {
    async function* failed(): AsyncGenerator<Buffer> {
      yield Buffer.concat([frameOn('stdout', `${stamp(1)} printed\n`), frameOn('engineError', 'Error grabbing logs: the file is gone\n')]);
    }
    const lines: LogLine[] = [];
    const reading = async (): Promise<void> => {
      for await (const line of linesAfter(frames(failed()), 1, null)) lines.push(line);
    };
    await expect(reading()).rejects.toMatchObject({
      name: 'RuntimeUnavailable',
      cause: expect.objectContaining({ message: 'Error grabbing logs: the file is gone' }),
    });
    expect(texts(lines)).toEqual(['printed']);
  });
});
