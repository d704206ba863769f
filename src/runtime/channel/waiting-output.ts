import type { OutputStream } from '../runtime.ts';

/** Pieces smaller than this are combined into one, in bytes. */
const PIECE_BYTES_MIN = 4_096;

export interface StreamOutput {
  stream: OutputStream;
  bytes: Buffer;
  /** The number of frames in which the bytes arrived. */
  frames: number;
}

interface Piece {
  stream: OutputStream;
  memory: Buffer;
  length: number;
  frames: number;
}

/**
 * The output of a stream that was not read yet. It takes about as much memory as it has bytes, however small the frames were in which it
 * arrived. Small pieces of stdout may overtake small pieces of stderr, and the other way round.
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

/** A frame shares its memory with other bytes that arrived with it, which are kept in memory as long as the frame is. */
const ownMemory = (bytes: Buffer): Buffer => (bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes);
