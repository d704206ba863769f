import type { IncomingMessage } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';

import { Refusal } from '../../kernel/errors/refusal.ts';
import { discardRest } from './discard-rest.ts';

/** The longest time in which the sender of a file sends nothing although it may, in ms. */
const STALL_MS = 30_000;

/** A file that is the whole body of a request, which is read once, no faster than it is taken. */
export class RawFile {
  private constructor(
    private readonly request: IncomingMessage,
    private readonly stallMs: number,
  ) {}

  /** Throws `payload_too_large` if the request says that the file is longer. Whoever takes it holds the rest. */
  static async of(request: IncomingMessage, bytesMax: number, stallMs = STALL_MS): Promise<RawFile> {
    if (Number(request.headers['content-length'] ?? 0) <= bytesMax) return new RawFile(request, stallMs);
    await discardRest(request);
    throw new Refusal('payload_too_large', `The file may have ${bytesMax} bytes at most.`);
  }

  /**
   * Hands the file to `onFile`, which takes the content, and returns what that returns. Throws what it throws; the content fails with
   * `invalid_request` if it breaks off or stalls.
   */
  async read<T>(onFile: (file: { content: Readable }) => Promise<T>): Promise<T> {
    const { request } = this;
    const content = new PassThrough({ highWaterMark: 65_536 });
    content.on('error', () => undefined);
    const stalled = setTimeout(() => {
      // A file that has come, or whose bytes wait for whoever takes it, is not late: the container may have to wake first.
      if (request.complete || content.writableNeedDrain) stalled.refresh();
      else content.destroy(new Refusal('invalid_request', 'The file comes too slowly.'));
    }, this.stallMs);
    const onClose = () => {
      if (!request.readableEnded) content.destroy(new Refusal('invalid_request', 'The body did not come to its end.'));
    };
    if (request.destroyed) onClose();
    request.on('data', () => stalled.refresh());
    request.once('close', onClose);
    try {
      request.pipe(content);
      return await onFile({ content });
    } catch (error) {
      request.unpipe(content);
      await discardRest(request);
      throw error;
    } finally {
      clearTimeout(stalled);
      request.off('close', onClose);
      content.destroy();
    }
  }
}
