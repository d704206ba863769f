import fc from 'fast-check';

import { clipboardText } from '../../../../test/support/browser-messages.ts';
import { keyEvent, pointerEvent, setEncodings, setPixelFormat, updateRequest } from '../../../desktop/rfb/client-messages.ts';
import { PRESSED_KEYS_MAX } from './pressed-input.ts';
import { CUT_TEXT_BYTES_MAX, type FilterResult, GREETING, RfbFilter, RfbViolation } from './rfb-filter.ts';

const HELLO = [GREETING, Buffer.of(1), Buffer.of(1)];

/** Returns a filter whose browser has been greeted. */
function greeted(allowsInput: boolean): RfbFilter {
  const filter = new RfbFilter(allowsInput);
  filter.write(Buffer.concat(HELLO));
  return filter;
}

function passed(filter: RfbFilter, ...pieces: Buffer[]): Buffer {
  return Buffer.concat(pieces.flatMap((piece) => filter.write(piece).toDesktop));
}

const bytes = (type: number, length: number, change: (message: Buffer) => void = () => undefined): Buffer => {
  const message = Buffer.alloc(length);
  message[0] = type;
  change(message);
  return message;
};
const qemuKey = (keysym: number, isDown: boolean) =>
  bytes(255, 12, (message) => {
    message.writeUInt16BE(isDown ? 1 : 0, 2);
    message.writeUInt32BE(keysym, 4);
    message.writeUInt32BE(30, 8);
  });
const fence = (payload: Buffer) => Buffer.concat([bytes(248, 9, (head) => (head[8] = payload.length)), payload]);
const desktopSize = (screens: number) => Buffer.concat([bytes(251, 8, (head) => (head[6] = screens)), Buffer.alloc(16 * screens, 5)]);

/** A message of a browser, and what is left of it for the desktop where input is allowed and where it is not. */
interface Sent {
  message: Buffer;
  control: Buffer;
  view: Buffer;
}

const NOTHING = Buffer.alloc(0);
const harmless = (message: Buffer): Sent => ({ message, control: message, view: message });
const input = (message: Buffer): Sent => ({ message, control: message, view: NOTHING });
const never = (message: Buffer): Sent => ({ message, control: NOTHING, view: NOTHING });

const uint = (max: number) => fc.integer({ min: 0, max });
const anyMessage: fc.Arbitrary<Sent> = fc.oneof(
  fc.constant(harmless(setPixelFormat())),
  fc.array(fc.integer({ min: -500, max: 50 }), { maxLength: 40 }).map((encodings) => {
    const kept = setEncodings(encodings.filter((encoding) => encoding !== -316));
    return { message: setEncodings(encodings), control: kept, view: kept };
  }),
  fc.tuple(fc.boolean(), uint(4_000)).map(([isIncremental, width]) => harmless(updateRequest(isIncremental, width, 4))),
  fc.tuple(uint(3), fc.boolean()).map(([keysym, isDown]) => input(keyEvent(keysym, isDown))),
  fc.tuple(uint(3), fc.boolean()).map(([keysym, isDown]) => input(qemuKey(keysym, isDown))),
  fc.tuple(uint(255), uint(4_000), uint(4_000)).map(([buttons, x, y]) => input(pointerEvent(buttons, x, y))),
  fc
    .tuple(fc.uint8Array({ maxLength: 300 }), fc.boolean())
    .map(([text, isExtended]) => input(clipboardText(Buffer.from(text), isExtended))),
  fc.constant(harmless(bytes(150, 10, (message) => (message[1] = 1)))),
  fc.uint8Array({ maxLength: 64 }).map((payload) => harmless(fence(Buffer.from(payload)))),
  fc.constant(never(bytes(250, 4))),
  uint(4).map((screens) => never(desktopSize(screens))),
);

/** Cuts the bytes into pieces at these places. */
function cut(stream: Buffer, places: readonly number[]): Buffer[] {
  const edges = [0, ...places.map((place) => place % (stream.length + 1)).toSorted((a, b) => a - b), stream.length];
  return edges.slice(1).map((end, index) => stream.subarray(edges[index], end));
}

describe('the messages of a browser', () => {
  it('reach the desktop alike however its stream is cut, and no input does of somebody who only sees it', () => {
    const streams = fc.record({
      sent: fc.array(anyMessage, { maxLength: 30 }),
      places: fc.array(fc.nat(), { maxLength: 40 }),
      isControl: fc.boolean(),
    });
    fc.assert(
      fc.property(streams, ({ sent, places, isControl }) => {
        const filter = new RfbFilter(isControl);
        const pieces = cut(Buffer.concat([...HELLO, ...sent.map(({ message }) => message)]), places);
        const results = pieces.map((piece) => filter.write(piece));
        const all = (which: 'toDesktop' | 'toBrowser') => Buffer.concat(results.flatMap((result) => result[which]));
        expect(all('toDesktop')).toEqual(Buffer.concat(sent.map(({ control, view }) => (isControl ? control : view))));
        expect(all('toBrowser')).toEqual(Buffer.from([1, 1, 0, 0, 0, 0]));
        const hasInput = sent.some(({ view, message }) => isControl && view.length === 0 && message[0] !== 250 && message[0] !== 251);
        expect(results.some((result) => result.hasInput)).toBe(hasInput);
      }),
      { numRuns: 2_000 },
    );
  });

  it('report the place of the pointer', () => {
    const { pointer } = greeted(true).write(Buffer.concat([pointerEvent(0, 1, 2), pointerEvent(1, 700, 300)]));
    expect(pointer).toEqual({ x: 700, y: 300 });
    expect(greeted(false).write(pointerEvent(0, 1, 2)).pointer).toBeNull();
  });

  it('reach the desktop only after the browser was greeted', () => {
    const filter = new RfbFilter(true);
    const steps = HELLO.map((piece): FilterResult => filter.write(piece));
    expect(steps.map(({ isGreeted }) => isGreeted)).toEqual([false, false, true]);
    expect(Buffer.concat(steps.flatMap(({ toDesktop }) => toDesktop))).toHaveLength(0);
  });
});

describe('a browser that breaks the protocol', () => {
  const text = (length: number) => bytes(6, 8, (head) => head.writeInt32BE(length, 4));

  it.each([
    ['a message of an unknown type', bytes(7, 20)],
    ['a request for sound', Buffer.of(255, 1, 0, 0)],
    ['too long a text', text(CUT_TEXT_BYTES_MAX + 1)],
    ['too long a text with formats', text(-CUT_TEXT_BYTES_MAX - 1)],
    ['the longest text that can be announced', text(-0x8000_0000)],
    ['too many encodings', bytes(2, 4, (head) => head.writeUInt16BE(257, 2))],
    ['too large a fence', bytes(248, 9, (head) => (head[8] = 65))],
  ])('is refused for %s', (_, message) => {
    for (const allowsInput of [true, false]) expect(() => greeted(allowsInput).write(message)).toThrow(RfbViolation);
  });

  it.each([
    ['another version', [Buffer.from('RFB 003.003\n')]],
    ['no version', [Buffer.from('GET / HTTP/1.1')]],
    ['a password', [GREETING, Buffer.of(2)]],
  ])('is refused for %s in its greeting', (_, pieces) => {
    const filter = new RfbFilter(true);
    expect(() => pieces.forEach((piece) => filter.write(piece))).toThrow(RfbViolation);
  });

  it('makes the filter buffer no more than the head of a message', () => {
    const filter = greeted(true);
    const large = Buffer.alloc(1_000_000);
    large[999_999] = 6;
    // Requests of zeros are formats of pixels, and the last byte begins a text.
    filter.write(large.subarray(999_999));
    expect((filter as unknown as { head: Buffer }).head.buffer.byteLength).toBeLessThan(100_000);
  });
});

describe('what a browser holds down', () => {
  const down = [keyEvent(0xffe1, true), qemuKey(0x61, true), pointerEvent(5, 10, 20)];
  const up = [keyEvent(0xffe1, false), qemuKey(0x61, false), pointerEvent(0, 10, 20)];

  it('is released once when it may control no longer', () => {
    const filter = greeted(true);
    passed(filter, ...down);
    expect(Buffer.concat(filter.setInput(false))).toEqual(Buffer.concat(up));
    expect(passed(filter, ...up)).toHaveLength(0);
    expect(filter.setInput(false)).toEqual([]);
  });

  it('is released at its end, but for what it released itself', () => {
    const filter = greeted(true);
    passed(filter, ...down, up[1] as Buffer, up[2] as Buffer);
    expect(filter.release()).toEqual([up[0]]);
  });

  it('is released after the text that is on its way', () => {
    const filter = greeted(true);
    const text = clipboardText(Buffer.alloc(50, 1), false);
    passed(filter, ...down, text.subarray(0, 20));
    expect(filter.setInput(false)).toEqual([]);
    expect(passed(filter, text.subarray(20), keyEvent(0x62, true))).toEqual(Buffer.concat([text.subarray(20), ...up]));
  });

  it('is bounded', () => {
    const filter = greeted(true);
    for (let keysym = 0; keysym < PRESSED_KEYS_MAX; keysym += 1) passed(filter, keyEvent(keysym, true));
    expect(passed(filter, keyEvent(5_000, true))).toHaveLength(0);
    expect(filter.release()).toHaveLength(PRESSED_KEYS_MAX);
  });
});
