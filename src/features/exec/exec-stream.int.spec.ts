import fc from 'fast-check';

import type { ServerSentEvent } from '../../http/server/response-streams.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { ExecResult } from '../../runtime/runtime.ts';
import { execEventsOf } from './exec-stream.ts';
import type { ExecListener, ExecOrder, Exec } from './exec.service.ts';

const result: ExecResult = { exitCode: 3, stdout: Buffer.alloc(0), stderr: Buffer.alloc(0), timedOut: false, truncated: false };

/** Returns the events of a command that prints the parts. */
async function eventsOf(parts: Buffer[], end: () => ExecResult = () => result): Promise<ServerSentEvent[]> {
  const run = (_: ExecOrder, listener: ExecListener) => {
    listener.onStart?.(false);
    for (const part of parts) listener.onOutput?.('stdout', part);
    return Promise.resolve().then(end);
  };
  const events: ServerSentEvent[] = [];
  for await (const event of await execEventsOf({ run } as unknown as Exec, {} as ExecOrder, () => {})) events.push(event);
  return events;
}

const joined = (events: ServerSentEvent[]) =>
  Buffer.concat(
    events.flatMap(({ event, data }) => {
      const { text, base64 } = data as { text?: string; base64?: string };
      return event === 'stdout' ? [text === undefined ? Buffer.from(base64 ?? '', 'base64') : Buffer.from(text)] : [];
    }),
  );

describe('the stream of a command', () => {
  it('contains every byte, as text where it is UTF-8, for any split of the output', async () => {
    const texts = fc.string({ unit: 'binary', minLength: 1, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(texts, fc.array(fc.nat(100), { maxLength: 5 }), async (text, cuts) => {
        const bytes = Buffer.from(text);
        const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).toSorted((a, b) => a - b), bytes.length];
        const events = await eventsOf(places.slice(1).map((to, n) => bytes.subarray(places[n], to)));
        expect(joined(events)).toEqual(bytes);
        expect(events.every(({ data }) => !Object.hasOwn(data as object, 'base64'))).toBe(true);
      }),
    );
  });

  it('holds bytes that are no UTF-8 in base64, without loss', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 8 }), { maxLength: 6 }), async (parts) => {
        const buffers = parts.map((part) => Buffer.from(part));
        expect(joined(await eventsOf(buffers))).toEqual(Buffer.concat(buffers));
      }),
    );
  });

  it('ends with the exit code, or with the reason why there is none', async () => {
    expect((await eventsOf([])).at(-1)).toEqual({ event: 'exit', data: { exitCode: 3, timedOut: false, truncated: false } });
    const interrupted = () => {
      throw new ProblemError('agent_unavailable', 'The container ended.');
    };
    const events = await eventsOf([Buffer.from('half')], interrupted);
    expect(events).toEqual([
      { event: 'stdout', data: { text: 'half' } },
      { event: 'error', data: { code: 'agent_unavailable', detail: 'The container ended.' } },
    ]);
  });
});
