import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { LocalRuntime } from '../../src/runtime/local/local-runtime.ts';
import type { RuntimeUnderTest } from '../contracts/runtime.fixture.contract.ts';

export interface LocalUnderTest extends RuntimeUnderTest {
  dataDir: string;
}

/** Opens a local runtime in a folder of its own for the contract suites. */
export async function localUnderTest(): Promise<LocalUnderTest> {
  const folder = mkdtempSync(join(tmpdir(), 'mooring-local-'));
  const options = { instance: randomUUID().slice(-12), dataDir: join(folder, 'data') };
  const runtime = await LocalRuntime.open(options);
  return {
    runtime,
    dataDir: options.dataDir,
    program(files, start) {
      const directory = join(folder, 'programs', randomUUID());
      for (const [name, content] of Object.entries(files)) {
        mkdirSync(dirname(join(directory, name)), { recursive: true });
        writeFileSync(join(directory, name), content);
      }
      return { kind: 'program', directory, language: 'node', start };
    },
    reopen: () => LocalRuntime.open(options),
    async close() {
      for (const { handle } of (await runtime.list()).containers) await runtime.remove(handle);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
