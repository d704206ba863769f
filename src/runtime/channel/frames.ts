/**
 * The frames of the channel to the supervisor of an agent (docs/reference/supervisor.md). Whatever comes from there was perhaps written by the agent
 * itself: it is checked, and never more of it is kept than one frame.
 */

/** The version of the protocol that this service speaks. */
export const PROTOCOL_VERSION = '1';
const HEADER_BYTES = 12;
/** The largest content of a frame in bytes. An OPEN frame to the supervisor may have more. */
export const FRAME_BYTES_MAX = 65_536 + HEADER_BYTES;
export const DATA_BYTES_MAX = 65_536;
export const OPEN_BYTES_MAX = 4 * 1024 * 1024;
const FIELDS_MAX = 1_024;
/** The most pieces of memory in which a frame is buffered. */
const PARTS_MAX = 64;

export enum FrameType {
  hello = 1,
  open,
  data,
  end,
  credit,
  reset,
  control,
  head,
}

export interface Frame {
  stream: number;
  type: FrameType;
  /** The output of a DATA frame: 1 is stdout, 2 is stderr. */
  output: number;
  payload: Buffer;
}

/** The channel has ended, or bytes arrived that are not a frame of the protocol, so that nothing after them can be parsed. */
export class ChannelBroken extends Error {
  constructor(why: string, options?: ErrorOptions) {
    super(`the channel to the agent broke: ${why}`, options);
    this.name = 'ChannelBroken';
  }
}

/** The supervisor is of another release, which its container keeps until it is created again. */
export class OtherVersion extends ChannelBroken {}

export function encodeFrame(stream: number, type: FrameType, payload: Buffer | null = null): Buffer {
  const size = payload?.length ?? 0;
  const frame = Buffer.allocUnsafe(HEADER_BYTES + size);
  frame.writeUInt32LE(stream, 0);
  frame.writeUInt32LE(type, 4);
  frame.writeUInt32LE(size, 8);
  payload?.copy(frame, HEADER_BYTES);
  return frame;
}

/** Encodes byte strings, each preceded by its length. */
export function encodeFields(fields: readonly (string | Buffer)[], before = 0): Buffer {
  const parts = fields.map((field) => (typeof field === 'string' ? Buffer.from(field) : field));
  const encoded = Buffer.allocUnsafe(parts.reduce((size, part) => size + 4 + part.length, before));
  let at = before;
  for (const part of parts) {
    encoded.writeUInt32LE(part.length, at);
    part.copy(encoded, at + 4);
    at += 4 + part.length;
  }
  return encoded;
}

/** Decodes byte strings. Throws `ChannelBroken` for invalid bytes. */
export function decodeFields(bytes: Buffer): Buffer[] {
  const fields: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    if (bytes.length - at < 4 || fields.length === FIELDS_MAX) throw new ChannelBroken('a payload is not a list of fields');
    const size = bytes.readUInt32LE(at);
    at += 4;
    if (size > bytes.length - at) throw new ChannelBroken('a field is longer than its frame');
    fields.push(bytes.subarray(at, at + size));
    at += size;
  }
  return fields;
}

const fromSupervisor: ReadonlySet<number> = new Set([FrameType.hello, FrameType.data, FrameType.end, FrameType.credit, FrameType.head]);

/** Parses a stream of bytes into frames. */
export class FrameParser {
  private parts: Buffer[] = [];
  private length = 0;
  private wanted = HEADER_BYTES;

  /** The number of buffered bytes of the frame that is not complete yet. */
  get keptBytes(): number {
    return this.length;
  }

  /** The number of pieces of memory that contain them. */
  get keptParts(): number {
    return this.parts.length;
  }

  /** Returns the frames that are complete with these bytes. Throws `ChannelBroken`. */
  *push(bytes: Buffer): Generator<Frame> {
    this.parts.push(bytes);
    this.length += bytes.length;
    if (this.length < this.wanted) {
      // Each piece takes more memory than its bytes, and a frame may arrive byte by byte.
      if (this.parts.length === PARTS_MAX) this.parts = [Buffer.concat(this.parts)];
      return;
    }
    let all = this.parts.length === 1 ? bytes : Buffer.concat(this.parts);
    for (;;) {
      this.wanted = HEADER_BYTES;
      if (all.length < HEADER_BYTES) break;
      const size = all.readUInt32LE(8);
      const type = all.readUInt8(4);
      if (!fromSupervisor.has(type) || all.readUInt16LE(6) !== 0) throw new ChannelBroken('a frame has no type');
      if (size > FRAME_BYTES_MAX) throw new ChannelBroken('a frame is too long');
      this.wanted = HEADER_BYTES + size;
      if (all.length < this.wanted) break;
      yield { stream: all.readUInt32LE(0), type, output: all.readUInt8(5), payload: all.subarray(HEADER_BYTES, this.wanted) };
      all = all.subarray(this.wanted);
    }
    this.parts = all.length === 0 ? [] : [all];
    this.length = all.length;
  }
}
