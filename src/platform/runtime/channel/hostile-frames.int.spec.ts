import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fc from 'fast-check';

import { supervisorPath } from '../../../../test/support/supervisor-channel.ts';
import { encodeFields, encodeFrame, type FrameType } from './frames.ts';

/** The exit code of a supervisor that was sent what is no frame of the protocol. */
const REFUSED = 3;
/** The frames of one process, and the processes: a few thousand of each, since most are refused at once. */
const FRAMES_MAX = 200;
const RUNS = 150;

async function endOf(frames: readonly Buffer[]): Promise<{ code: number | null; signal: string | null }> {
  const child = spawn(supervisorPath, ['attach'], { stdio: ['pipe', 'pipe', 'ignore'], env: {} });
  child.stdout.resume();
  child.stdin.on('error', () => undefined);
  for (const frame of frames) child.stdin.write(frame);
  child.stdin.end();
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  return { code, signal };
}

describe('a supervisor', () => {
  const words = fc.constantFrom(
    'exec',
    'terminal',
    'dial',
    'list',
    'read',
    'write',
    'mkdir',
    'move',
    'measure',
    'session',
    'keep-start',
    'keep-output',
    'keep-write',
    'keep-remove',
    'resize',
    'signal',
    '',
    '0',
    '-1',
    '99999999999',
  );
  const fields = fc.array(fc.oneof(words, fc.constant('/nowhere'), fc.string({ maxLength: 40 })), { maxLength: 12 });
  const frame = fc.record({
    stream: fc.integer({ min: 0, max: 5 }),
    type: fc.integer({ min: 1, max: 8 }),
    payload: fc.oneof(
      fields.map((each) => encodeFields(each)),
      fields.map((each) => encodeFields(each, 4)),
      fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes)),
    ),
  });

  it('ends in order, or refuses, whatever frames it is sent', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: FRAMES_MAX }), async (frames) => {
        const { code, signal } = await endOf(frames.map(({ stream, type, payload }) => encodeFrame(stream, type as FrameType, payload)));
        expect([[0, REFUSED].includes(code ?? -1), signal]).toEqual([true, null]);
      }),
      { numRuns: RUNS },
    );
  });

  it('ends in order, or refuses, whatever bytes it is sent', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 20 }), async (chunks) => {
        const { code, signal } = await endOf(chunks.map((chunk) => Buffer.from(chunk)));
        expect([[0, REFUSED].includes(code ?? -1), signal]).toEqual([true, null]);
      }),
      { numRuns: RUNS },
    );
  });
});
