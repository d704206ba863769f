import { RuntimeUnavailable } from '../../runtime.errors.ts';

/** A piece of output in the engine's framing. */
export interface Frame {
  stream: 'stdout' | 'stderr';
  payload: Buffer;
}

const HEADER_BYTES = 8;
const STDERR = 2;
/** The number of the stream on which the engine reports its own failure instead of more output. */
const ENGINE_ERROR = 3;
const ENGINE_ERROR_BYTES_MAX = 1_000;
const FRAME_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Parses the engine's framing of stdout and stderr: a header of eight bytes (the stream's number, three zeros, the length as a big-endian
 * number), then the payload.
 */
export class EngineFrames {
  private parts: Buffer[] = [];
  private have = 0;
  private need = HEADER_BYTES;

  /** The value is true if the bytes so far end within a frame. */
  get isWithin(): boolean {
    return this.have > 0;
  }

  /**
   * Yields the frames that these bytes complete. Throws `RuntimeUnavailable` when the engine reports an error of its own, which is not
   * output of the container.
   */
  *push(chunk: Buffer): Generator<Frame> {
    this.parts.push(chunk);
    this.have += chunk.length;
    if (this.have < this.need) return;
    let all = this.parts.length === 1 ? chunk : Buffer.concat(this.parts);
    this.need = HEADER_BYTES;
    while (all.length >= HEADER_BYTES) {
      const length = all.readUInt32BE(4);
      if (length > FRAME_BYTES_MAX) throw new RuntimeUnavailable(new Error(`a frame of ${length} bytes`));
      this.need = HEADER_BYTES + length;
      if (all.length < this.need) break;
      const payload = all.subarray(HEADER_BYTES, this.need);
      if (all[0] === ENGINE_ERROR) throw new RuntimeUnavailable(new Error(payload.toString('utf8', 0, ENGINE_ERROR_BYTES_MAX).trim()));
      yield { stream: all[0] === STDERR ? 'stderr' : 'stdout', payload };
      all = all.subarray(this.need);
      this.need = HEADER_BYTES;
    }
    this.parts = all.length === 0 ? [] : [all];
    this.have = all.length;
  }
}

/** Yields the frames of the source, and reads it no faster than its consumer does. Throws `RuntimeUnavailable` on an incomplete frame. */
export async function* frames(source: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  const parser = new EngineFrames();
  for await (const chunk of source) yield* parser.push(chunk);
  if (parser.isWithin) throw new RuntimeUnavailable(new Error('the output ended within a frame'));
}
