import { Duplex } from 'node:stream';
import type { ChannelStream } from './channel-stream.ts';
import type { StreamOutput } from './waiting-output.ts';

/** The longest wait for the end of an aborted call, in ms. A frozen container ends nothing. */
export const END_MS_MAX = 10_000;

/**
 * The output and the input of a call as one stream. More output is requested only as fast as the reader consumes it. Closing the stream
 * ends the call. The stream closes, without an error, when the call or the channel ends, for whatever reason.
 */
export class ChannelDuplex extends Duplex {
  private readonly outputs: AsyncGenerator<StreamOutput>;

  constructor(private readonly source: ChannelStream) {
    super({ allowHalfOpen: false });
    this.outputs = source.output();
  }

  override _read(): void {
    this.outputs.next().then(
      ({ value, done }) => this.push(done ? null : value.bytes),
      () => this.destroy(),
    );
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    void this.source
      .write(bytes)
      .catch(() => this.destroy())
      .finally(callback);
  }

  override _final(callback: () => void): void {
    this.source.endInput();
    callback();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.source.resetWithin(END_MS_MAX);
    callback(error);
  }
}
