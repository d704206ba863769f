import type { ExecRequest, OutputStream } from './runtime.ts';

/** Collects the output of a command, up to one limit for stdout and stderr together, and discards the rest. */
export class ExecOutput {
  private remainingBytes: number;
  private isTruncated = false;
  private readonly pieces: Record<OutputStream, Buffer[]> = { stdout: [], stderr: [] };
  private readonly onOutput: (stream: OutputStream, bytes: Buffer) => void;

  constructor({ outputLimitBytes, onOutput }: ExecRequest) {
    this.remainingBytes = outputLimitBytes;
    this.onOutput = onOutput ?? ((stream, bytes) => this.pieces[stream].push(bytes));
  }

  push(stream: OutputStream, bytes: Buffer): void {
    if (bytes.length > this.remainingBytes) this.isTruncated = true;
    // A copy, because the bytes may be a view into a buffer that is reused, or that is much larger.
    const part = Buffer.from(bytes.subarray(0, this.remainingBytes));
    this.remainingBytes -= part.length;
    if (part.length > 0) this.onOutput(stream, part);
  }

  /** Returns the collected output, and whether some output was discarded. */
  result(): { stdout: Buffer; stderr: Buffer; truncated: boolean } {
    return { stdout: Buffer.concat(this.pieces.stdout), stderr: Buffer.concat(this.pieces.stderr), truncated: this.isTruncated };
  }
}
