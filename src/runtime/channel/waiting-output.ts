import type { OutputStream } from '../runtime.ts';

/** Pieces of less than this come together in one, bytes. */
const PIECE_BYTES_MIN = 4_096;

export interface StreamOutput {
  stream: OutputStream;
  bytes: Buffer;
  /** The number of frames in which the bytes came. */
  frames: number;
}

interface Piece {
  stream: OutputStream;
  memory: Buffer;
  length: number;
  frames: number;
}

/**
 * The output of a stream that nobody has read yet. It takes about as much memory as it has bytes, in however small frames they came, and
 * whatever else came with them. Small pieces of stdout may overtake small ones of stderr, and the other way round.
 */
export class WaitingOutput {
  private readonly pieces: Piece[] = [];
  private readonly last: Record<OutputStream, Piece | null> = { stdout: null, stderr: null };

  add(stream: OutputStream, bytes: Buffer): void {
    const last = this.last[stream];
    if (last !== null && bytes.length <= last.memory.length - last.length) {
      bytes.copy(last.memory, last.length);
      last.length += bytes.length;
      last.frames += 1;
      return;
    }
    const isSmall = bytes.length < PIECE_BYTES_MIN;
    const piece = { stream, memory: isSmall ? Buffer.allocUnsafeSlow(PIECE_BYTES_MIN) : ownMemory(bytes), length: bytes.length, frames: 1 };
    if (isSmall) bytes.copy(piece.memory);
    this.last[stream] = isSmall ? piece : null;
    this.pieces.push(piece);
  }

  shift(): StreamOutput | undefined {
    const piece = this.pieces.shift();
    if (piece === undefined) return undefined;
    const { stream, memory, length, frames } = piece;
    if (this.last[stream] === piece) this.last[stream] = null;
    return { stream, bytes: memory.subarray(0, length), frames };
  }
}

/** A frame shares its memory with what came with it, which is kept as long as the frame is. */
const ownMemory = (bytes: Buffer): Buffer => (bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes);
