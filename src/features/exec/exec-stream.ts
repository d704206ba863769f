import { Readable } from 'node:stream';

import { toProblemError } from '../../http/responses/problems.ts';
import type { ServerSentEvent } from '../../http/server/response-streams.ts';
import type { OutputStream } from '../../runtime/runtime.ts';
import { type TextPiece, TextPieces } from '../../kernel/text/text-pieces.ts';
import type { ExecOrder, Exec } from './exec.service.ts';

/**
 * Runs the command and returns its events once it has started: `stdout` and `stderr` as they arrive, then `exit`, or `error` if it was
 * interrupted. Throws what `Exec.run` throws before the start. Events wait in memory for a slow reader, bounded by the limit of the output.
 */
export async function execEventsOf(
  service: Exec,
  order: ExecOrder,
  onStart: (woken: boolean) => void,
): Promise<AsyncIterable<ServerSentEvent>> {
  const events = new Readable({ objectMode: true, read: () => undefined });
  const texts = { stdout: new OutputEvents('stdout', events), stderr: new OutputEvents('stderr', events) };
  const end = (event: ServerSentEvent) => {
    texts.stdout.end();
    texts.stderr.end();
    events.push(event);
    events.push(null);
  };
  await new Promise<void>((resolve, reject) => {
    const listener = {
      onStart: (woken: boolean) => {
        onStart(woken);
        resolve();
      },
      onOutput: (stream: OutputStream, bytes: Buffer) => texts[stream].push(bytes),
    };
    service.run(order, listener).then(
      ({ exitCode, timedOut, truncated }) => end({ event: 'exit', data: { exitCode, timedOut, truncated } }),
      (error: unknown) => {
        reject(error);
        const { code, message } = toProblemError(error);
        end({ event: 'error', data: { code, detail: message } });
      },
    );
  });
  return events;
}

/** Converts the bytes of one output stream to events. */
class OutputEvents {
  private readonly pieces = new TextPieces();

  constructor(
    private readonly event: OutputStream,
    private readonly events: Readable,
  ) {}

  push(bytes: Buffer): void {
    this.emit(this.pieces.add(bytes));
  }

  end(): void {
    this.emit(this.pieces.end());
  }

  private emit(data: TextPiece | null): void {
    if (data !== null) this.events.push({ event: this.event, data });
  }
}
