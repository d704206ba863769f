import type { IncomingMessage } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { discardRest } from './discard-rest.ts';

/** The longest time without a byte while the file could be read, in ms. */
const STALL_MS = 30_000;

/** A file that is the whole body of a request. It is read once, at the pace of its consumer. */
export class RawFile {
  private constructor(
    private readonly request: IncomingMessage,
    private readonly stallMs: number,
  ) {}

  /** Throws `payload_too_large` if the announced length is too large. Otherwise the consumer enforces the bound. */
  static async of(request: IncomingMessage, bytesMax: number, stallMs = STALL_MS): Promise<RawFile> {
    if (Number(request.headers['content-length'] ?? 0) <= bytesMax) return new RawFile(request, stallMs);
    await discardRest(request);
    throw new ProblemError('payload_too_large', `The file may have ${bytesMax} bytes at most.`);
  }

  /**
   * Passes the file to `onFile`, which consumes the content, and returns its result. Throws its error; the content fails with
   * `invalid_request` if it breaks off or stalls.
   */
  async read<T>(onFile: (file: { content: Readable }) => Promise<T>): Promise<T> {
    const { request } = this;
    const content = new PassThrough({ highWaterMark: 65_536 });
    content.on('error', () => undefined);
    const stalled = setTimeout(() => {
      // A file that has arrived, or whose bytes wait for their consumer, is not late: the container may have to wake first.
      if (request.complete || content.writableNeedDrain) stalled.refresh();
      else content.destroy(new ProblemError('invalid_request', 'The file comes too slowly.'));
    }, this.stallMs);
    const onClose = () => {
      if (!request.readableEnded) content.destroy(new ProblemError('invalid_request', 'The body did not come to its end.'));
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
