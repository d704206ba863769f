import { isUtf8 } from 'node:buffer';
import { Readable } from 'node:stream';

import { toRefusal } from '../platform/http/responses/problems.ts';
import type { ServerSentEvent } from '../platform/http/response-streams.ts';
import type { OutputStream } from '../platform/runtime/runtime.ts';
import type { ExecOrder, Exec } from './exec.service.ts';

/**
 * Runs the command and returns its events once it has started: `stdout` and `stderr` as they come, then `exit`, or `error` if it was
 * interrupted. Throws what `Exec.run` throws before the start. The events wait in memory for a slow reader; the limit of the output
 * bounds them.
 */
export async function execEventsOf(
  service: Exec,
  order: ExecOrder,
  onStart: (woken: boolean) => void,
): Promise<AsyncIterable<ServerSentEvent>> {
  const events = new Readable({ objectMode: true, read: () => undefined });
  const texts = { stdout: new TextOf('stdout', events), stderr: new TextOf('stderr', events) };
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
      onOutput: (stream: OutputStream, bytes: Buffer) => texts[stream].take(bytes),
    };
    service.run(order, listener).then(
      ({ exitCode, timedOut, truncated }) => end({ event: 'exit', data: { exitCode, timedOut, truncated } }),
      (error: unknown) => {
        reject(error);
        const { code, message } = toRefusal(error);
        end({ event: 'error', data: { code, detail: message } });
      },
    );
  });
  return events;
}

/** Turns the bytes of one output into events: `{text}` where they are UTF-8, else `{base64}`. */
class TextOf {
  /** The beginning of a character whose rest has not come yet. */
  private rest: Buffer = Buffer.alloc(0);

  constructor(
    private readonly event: OutputStream,
    private readonly events: Readable,
  ) {}

  take(bytes: Buffer): void {
    const all = Buffer.concat([this.rest, bytes]);
    const whole = all.length - unfinishedBytes(all);
    this.rest = all.subarray(whole);
    this.push(all.subarray(0, whole));
  }

  end(): void {
    this.push(this.rest);
  }

  private push(bytes: Buffer): void {
    if (bytes.length === 0) return;
    const data = isUtf8(bytes) ? { text: bytes.toString() } : { base64: bytes.toString('base64') };
    this.events.push({ event: this.event, data });
  }
}

/** Returns the number of bytes at the end that begin a character of UTF-8 without ending it: 0 to 3. */
function unfinishedBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
