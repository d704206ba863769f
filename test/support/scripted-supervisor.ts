import { PassThrough } from 'node:stream';
import { Channel, type ChannelTransport } from '../../src/runtime/channel/channel.ts';
import { encodeFields, encodeFrame, FrameType } from '../../src/runtime/channel/frames.ts';

export const greeting = encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '1', '262144', '64']));

/** A supervisor that sends what a test specifies. */
export class Scripted implements ChannelTransport {
  readonly input = new PassThrough();
  isClosed = false;
  heldMs = 0;
  private say: (bytes: Buffer) => void = () => undefined;

  static async open(): Promise<{ transport: Scripted; channel: Channel }> {
    const transport = new Scripted();
    const opening = Channel.open(transport);
    transport.says(greeting);
    return { transport, channel: await opening };
  }

  onBytes(callback: (bytes: Buffer) => void): void {
    this.say = callback;
  }

  onEnd(): void {}

  pauseReading(ms: number): void {
    this.heldMs = ms;
  }

  close(): void {
    this.isClosed = true;
  }

  says(...bytes: Buffer[]): void {
    this.say(Buffer.concat(bytes));
  }
}
