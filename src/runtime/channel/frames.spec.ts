import fc from 'fast-check';

import {
  ChannelBroken,
  decodeFields,
  DATA_BYTES_MAX,
  encodeFields,
  encodeFrame,
  FRAME_BYTES_MAX,
  FrameParser,
  FrameType,
} from './frames.ts';

const types = [FrameType.hello, FrameType.data, FrameType.end, FrameType.credit, FrameType.head];

describe('frames', () => {
  it('come out as they were sent, however the bytes are cut', () => {
    const frame = fc.record({
      stream: fc.integer({ min: 0, max: 0xffff_ffff }),
      type: fc.constantFrom(...types),
      payload: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    });
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 20 }), fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }), (frames, cuts) => {
        const all = Buffer.concat(frames.map(({ stream, type, payload }) => encodeFrame(stream, type, payload)));
        const parser = new FrameParser();
        const found: object[] = [];
        for (let at = 0, n = 0; at < all.length; n += 1) {
          const end = at + (cuts[n % cuts.length] ?? 1);
          for (const { stream, type, payload } of parser.push(all.subarray(at, end)))
            found.push({ stream, type, payload: Buffer.from(payload) });
          at = end;
        }
        expect(found).toEqual(frames);
      }),
    );
  });

  it('that are invalid are rejected, and never more than one is buffered', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 2_000 }), { maxLength: 30 }), (chunks) => {
        const parser = new FrameParser();
        try {
          for (const chunk of chunks)
            for (const { payload } of parser.push(Buffer.from(chunk))) expect(payload.length).toBeLessThanOrEqual(FRAME_BYTES_MAX);
        } catch (error) {
          expect(error).toBeInstanceOf(ChannelBroken);
        }
        expect(parser.keptBytes).toBeLessThanOrEqual(FRAME_BYTES_MAX + 2_012);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ['that is too long', Buffer.from([1, 0, 0, 0, FrameType.data, 1, 0, 0, 0, 0, 2, 0])],
    ['of an unknown type', Buffer.from([1, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0])],
    ['of a type that only the service sends', Buffer.from([1, 0, 0, 0, FrameType.open, 0, 0, 0, 0, 0, 0, 0])],
    ['with something where nothing belongs', Buffer.from([1, 0, 0, 0, FrameType.data, 1, 1, 0, 0, 0, 0, 0])],
  ])('%s break the channel', (_, bytes) => {
    expect(() => [...new FrameParser().push(bytes)]).toThrow(ChannelBroken);
  });

  it('accept as much as an output may have at a time', () => {
    const bytes = Buffer.alloc(DATA_BYTES_MAX, 1);
    expect([...new FrameParser().push(encodeFrame(7, FrameType.data, bytes))]).toMatchObject([{ stream: 7, payload: bytes }]);
  });
});

describe('fields', () => {
  it('come out as they went in, whatever bytes they have', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 100 }), { maxLength: 50 }), (fields) => {
        const buffers = fields.map((field) => Buffer.from(field));
        expect(decodeFields(encodeFields(buffers))).toEqual(buffers);
      }),
    );
  });

  it('that are invalid are rejected', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          for (const field of decodeFields(Buffer.from(bytes))) expect(field.length).toBeLessThanOrEqual(bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(ChannelBroken);
        }
      }),
      { numRuns: 5_000 },
    );
  });
});
