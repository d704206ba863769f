import type { ExecRequest, OutputStream } from './runtime.ts';

/** Collects the output of a command, up to one limit for stdout and stderr together, and discards the rest. */
export class ExecOutput {
  private roomBytes: number;
  private isTruncated = false;
  private readonly kept: Record<OutputStream, Buffer[]> = { stdout: [], stderr: [] };
  private readonly onOutput: (stream: OutputStream, bytes: Buffer) => void;

  constructor({ outputLimitBytes, onOutput }: ExecRequest) {
    this.roomBytes = outputLimitBytes;
    this.onOutput = onOutput ?? ((stream, bytes) => this.kept[stream].push(bytes));
  }

  take(stream: OutputStream, bytes: Buffer): void {
    if (bytes.length > this.roomBytes) this.isTruncated = true;
    // A copy, because the bytes may be a view into a buffer that is reused, or that is much larger.
    const part = Buffer.from(bytes.subarray(0, this.roomBytes));
    this.roomBytes -= part.length;
    if (part.length > 0) this.onOutput(stream, part);
  }

  /** Returns the collected output, and whether some output was discarded. */
  taken(): { stdout: Buffer; stderr: Buffer; truncated: boolean } {
    return { stdout: Buffer.concat(this.kept.stdout), stderr: Buffer.concat(this.kept.stderr), truncated: this.isTruncated };
  }
}
