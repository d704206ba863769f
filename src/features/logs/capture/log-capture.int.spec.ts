import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { LocalRuntime } from '../../../runtime/local/local-runtime.ts';
import { capturing, type Printer } from '../../../../test/contracts/log-capture.contract.ts';

/** A program that prints the bytes of BYTES, then COUNT numbers, 20 at a time, and then exits or keeps running. */
const program = `
const { FIRST, COUNT, STAYS, BYTES } = process.env;
process.stdout.write(Buffer.from(BYTES, 'base64'));
const last = Number(FIRST) + Number(COUNT);
for (let number = Number(FIRST); number < last; number += 20) {
  for (let each = number; each < Math.min(number + 20, last); each++) console.log('line ' + each);
  await new Promise((resolve) => setTimeout(resolve, 10));
}
if (STAYS === 'yes') setInterval(() => {}, 60_000);
`;

async function localPrinter(): Promise<Printer> {
  const folder = mkdtempSync(join(tmpdir(), 'mooring-capture-'));
  const runtime = await LocalRuntime.open({ instance: 'test', dataDir: folder });
  const directory = join(mkdtempSync(join(folder, 'program-')));
  writeFileSync(join(directory, 'count.mjs'), program);
  const start = ['node', 'count.mjs'];
  const { image, command } = await runtime.ensureImage(
    { kind: 'program', directory, language: 'node', start },
    () => undefined,
    timeoutSignal(10_000),
  );
  const close = async () => {
    const { containers, volumes } = await runtime.list();
    for (const { handle } of containers) await runtime.remove(handle);
    for (const agentId of volumes) await runtime.removeVolume(agentId);
    rmSync(folder, { recursive: true, force: true });
  };
  return { runtime, image, command, close };
}

describe('captured output of the local runtime', () => {
  capturing(localPrinter);
});
