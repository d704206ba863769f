import { RuntimeUnavailable } from '../../runtime.ts';

/** A piece of output in the engine's framing. */
export interface Frame {
  stream: 'stdout' | 'stderr';
  payload: Buffer;
}

const HEADER_BYTES = 8;
const STDERR = 2;
/** The number of the stream in which the engine tells that it failed, in place of more output. */
const ENGINE_ERROR = 3;
const ENGINE_ERROR_BYTES_MAX = 1_000;
const FRAME_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Parses the engine's framing of stdout and stderr: a header of eight bytes (the stream's number, three zeros, the length as a big-endian
 * number), then the payload. It reads the source no faster than its consumer does. Throws `RuntimeUnavailable` on an incomplete frame, and
 * when the engine tells of an error of its own, which is no output of the container.
 */
export async function* frames(source: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  let parts: Buffer[] = [];
  let have = 0;
  let need = HEADER_BYTES;
  for await (const chunk of source) {
    parts.push(chunk);
    have += chunk.length;
    if (have < need) continue;
    let all = parts.length === 1 ? chunk : Buffer.concat(parts);
    need = HEADER_BYTES;
    while (all.length >= HEADER_BYTES) {
      const length = all.readUInt32BE(4);
      if (length > FRAME_BYTES_MAX) throw new RuntimeUnavailable(new Error(`a frame of ${length} bytes`));
      need = HEADER_BYTES + length;
      if (all.length < need) break;
      const payload = all.subarray(HEADER_BYTES, need);
      if (all[0] === ENGINE_ERROR) throw new RuntimeUnavailable(new Error(payload.toString('utf8', 0, ENGINE_ERROR_BYTES_MAX).trim()));
      yield { stream: all[0] === STDERR ? 'stderr' : 'stdout', payload };
      all = all.subarray(need);
      need = HEADER_BYTES;
    }
    parts = all.length === 0 ? [] : [all];
    have = all.length;
  }
  if (have > 0) throw new RuntimeUnavailable(new Error('the output ended within a frame'));
}
