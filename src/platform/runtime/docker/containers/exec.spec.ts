import { PassThrough } from 'node:stream';

import type Dockerode from 'dockerode';

import { frame } from '../../../../../test/support/engine-stand-in/logs.ts';
import { helperMount, helperVolumeName } from '../engine/names.ts';
import { execInContainer } from './exec.ts';

const TIMEOUT_MS = 1_000;
const HELD_MS = 60_000;

describe('the output of a command', () => {
  afterEach(() => jest.useRealTimers());

  function containerThatPrints(output: PassThrough): Dockerode.Container {
    const exec = { start: async () => output, inspect: async () => ({ Running: false, ExitCode: 0 }) };
    const found = { State: { Running: true }, Mounts: [{ Destination: helperMount, Name: helperVolumeName('1') }] };
    return { id: 'x', inspect: async () => found, exec: async () => exec } as unknown as Dockerode.Container;
  }

  const run = (output: PassThrough, pace: (bytes: number) => Promise<void> | null) =>
    execInContainer(containerThatPrints(output), { argv: ['x'], timeoutMs: TIMEOUT_MS, outputLimitBytes: 100, pace });

  it('may be held up for longer than the command may take', async () => {
    jest.useFakeTimers();
    const output = new PassThrough();
    output.write(frame('stdout', Buffer.from('one')));
    let letOn = () => {};
    const running = run(output, () => new Promise<void>((resolve) => (letOn = resolve)));
    await jest.advanceTimersByTimeAsync(HELD_MS);
    output.end();
    letOn();
    await jest.advanceTimersByTimeAsync(1);
    expect(await running).toMatchObject({ exitCode: 0, timedOut: false, stdout: Buffer.from('one') });
  });

  it('is given up where the engine hangs, however long it was held up before', async () => {
    jest.useFakeTimers();
    const output = new PassThrough();
    output.write(frame('stdout', Buffer.from('one')));
    let letOn = () => {};
    const running = run(output, () => new Promise<void>((resolve) => (letOn = resolve)));
    await jest.advanceTimersByTimeAsync(HELD_MS);
    letOn();
    await jest.advanceTimersByTimeAsync(2 * HELD_MS);
    expect(await running).toMatchObject({ exitCode: 124, timedOut: true });
  });

  it('is given up when more comes than the bound lets through, whoever wrote it', async () => {
    const output = new PassThrough();
    const running = run(output, () => null);
    for (let n = 0; n < 10; n += 1) output.write(frame('stdout', Buffer.alloc(10_000)));
    expect(await running).toMatchObject({ exitCode: 124, timedOut: true, truncated: true });
    expect(output.destroyed).toBe(true);
  });

  it('costs its reader by the piece as well as by the byte', async () => {
    const output = new PassThrough();
    for (let n = 0; n < 10; n += 1) output.write(frame('stdout', Buffer.from('x')));
    output.end();
    let cost = 0;
    await run(output, (bytes) => {
      cost += bytes;
      return null;
    });
    expect(cost).toBeGreaterThan(1_000);
  });
});
