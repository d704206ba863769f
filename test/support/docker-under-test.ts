import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import type Dockerode from 'dockerode';

import { DockerRuntime, type DockerRuntimeOptions } from '../../src/runtime/docker/docker-runtime.ts';
import type { RuntimeUnderTest } from '../contracts/runtime.fixture.contract.ts';
import { addWitness } from '../runner/evidence.ts';
import { testContainerKey } from './container-key.ts';
import { containersOn } from './witnesses.ts';

/** Makes a Docker runtime of its own instance for the contract suites; `clean` is called at the end with the instance's name. */
export function dockerUnderTest(
  docker: Dockerode,
  clean: (instance: string) => Promise<void> = () => Promise.resolve(),
  other: Partial<DockerRuntimeOptions> = {},
): RuntimeUnderTest {
  const instance = randomBytes(6).toString('hex');
  const containerKey = testContainerKey(instance);
  const open = () => new DockerRuntime({ instance, containerKey, docker, helperImage: null, ociRuntime: null, egress: 'all', ...other });
  const first = open();
  const opened = [first];
  const folders: string[] = [];
  const forget = addWitness('Docker runtime', () => containersOn(docker, `mooring.instance=${instance}`));
  return {
    runtime: first,
    program(files, start) {
      const directory = mkdtempSync(join(tmpdir(), 'mooring-program-'));
      folders.push(directory);
      for (const [name, content] of Object.entries(files)) {
        mkdirSync(dirname(join(directory, name)), { recursive: true });
        writeFileSync(join(directory, name), content);
      }
      return { kind: 'program', directory, language: 'node', start };
    },
    async reopen() {
      const again = open();
      opened.push(again);
      return again;
    },
    async close() {
      for (const runtime of opened) await runtime.close();
      for (const folder of folders) rmSync(folder, { recursive: true, force: true });
      await clean(instance);
      forget();
    },
  };
}
