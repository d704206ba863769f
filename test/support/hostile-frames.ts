import { encodeFields, encodeFrame, FrameType } from '../../src/runtime/channel/frames.ts';

/**
 * The frames that each side is sent. `TEST_FRAMES=1000000` makes it a million, which takes minutes: too long for every
 * run.
 */
export const FRAMES = Number(process.env.TEST_FRAMES ?? 20_000);

const calls = [
  'exec',
  'terminal',
  'dial',
  'list',
  'read',
  'write',
  'mkdir',
  'move',
  'measure',
  'nothing',
  'session',
  'keep-start',
  'keep-output',
  'keep-write',
  'keep-remove',
];
const controls = ['resize', 'signal', ''];
const values = ['', '0', '1', '-1', '7', '99999999999', '/nowhere/a', '..', 'a', 'b/c', 'true', 'tcp', 'unix', 'a\0b', 'é'.repeat(20)];
const lengths = [0, 1, 4, 8, 12, 16, 100, 600, 2_000];
/** An end of a stream from a supervisor: the dropped bytes, and a result. */
const ends = [['ok'], ['exit', '0', '0'], ['refused', 'not_found', '']].map((result) => encodeFields([Buffer.alloc(8), ...result]));

interface Choice {
  /** The numbers of streams that are used. */
  streams: number;
  /** One of this many frames has an unknown form. */
  hostile: number;
  /** A folder that calls may change. */
  folder: string;
}

/** Pseudo-random numbers from a seed, so that a failure can be reproduced. */
export class Chance {
  private known = 0;

  constructor(private state: number) {}

  below(end: number): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % end;
  }

  of<T>(all: readonly T[]): T {
    return all[this.below(all.length)] as T;
  }

  bytes(length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; at += 1) bytes[at] = this.below(256);
    return bytes;
  }

  /** Returns a frame of one of these types: mostly a valid one, sometimes any bytes under any type. */
  frame(types: readonly FrameType[], { streams, hostile, folder }: Choice): Buffer {
    if (this.below(hostile) === 0) return this.hostile(streams);
    const type = this.of(types);
    // A number that is in use can't be opened.
    const stream = type === FrameType.open ? (this.known = (this.known % streams) + 1) : this.below(streams) + 1;
    const frame = encodeFrame(stream, type, this.payload(type, folder));
    if (type === FrameType.data) frame[5] = this.below(2) + 1;
    return frame;
  }

  private payload(type: FrameType, folder: string): Buffer | null {
    if (type === FrameType.open) return this.fields(this.of(calls), folder, this.of([0, 1, 100, 65_536, 0xffff_ffff]));
    if (type === FrameType.control) return this.fields(this.of(controls), folder);
    if (type === FrameType.head) return this.fields(this.of(values), folder);
    if (type === FrameType.credit) return Buffer.of(this.below(3), this.below(2), 0, 0);
    if (type === FrameType.end) return this.of(ends);
    return type === FrameType.data ? this.bytes(this.of(lengths) + 1) : null;
  }

  private fields(word: string, folder: string, credit?: number): Buffer {
    const rest = Array.from({ length: this.below(9) }, () => (this.below(4) === 0 ? folder : this.of(values)));
    const fields = encodeFields([word, ...rest], credit === undefined ? 0 : 4);
    if (credit !== undefined) fields.writeUInt32LE(credit);
    return fields;
  }

  private hostile(streams: number): Buffer {
    const frame = encodeFrame(this.below(streams), this.below(12), this.bytes(this.of(lengths)));
    if (this.below(2) === 0) frame[this.below(frame.length)] = this.below(256);
    return frame;
  }
}
