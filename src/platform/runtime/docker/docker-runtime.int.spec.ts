import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Dockerode from 'dockerode';
import { describeWithDocker } from '../../../../test/support/docker.ts';
import { removeInstance } from '../../../../test/support/images.ts';
import { runtimeContract, type RuntimeUnderTest } from '../runtime.contract.ts';
import { DockerRuntime } from './docker-runtime.ts';

const docker = new Dockerode();

async function make(): Promise<RuntimeUnderTest> {
  const instance = randomBytes(6).toString('hex');
  const open = () => new DockerRuntime({ instance, docker, helperImage: null, ociRuntime: null });
  const opened = [open()];
  const folders: string[] = [];
  return {
    runtime: opened[0] as DockerRuntime,
    program(files, start) {
      const directory = mkdtempSync(join(tmpdir(), 'mooring-program-'));
      folders.push(directory);
      for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
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
      await removeInstance(docker, instance);
    },
  };
}

describeWithDocker('the docker adapter', () => runtimeContract('docker', make));
