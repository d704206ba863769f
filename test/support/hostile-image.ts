import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { tarOf } from '../../src/runtime/docker/image-sources/build-context.ts';
import { machineProgram } from '../../src/runtime/docker/image-sources/machine-programs.ts';
import { importImage } from '../../src/runtime/docker/image-sources/registry.ts';
import type { DockerFixture } from './docker-fixture.ts';
import { busyboxEntries } from './images.ts';
import { requirePrograms } from './private-engine.ts';

/** Builds an image with busybox, the usual names of its programs, and a perl, with which an agent can make any system call. */
export async function hostileImage(bed: DockerFixture): Promise<string> {
  requirePrograms('perl');
  const name = `mooring-test-${bed.instance}:hostile`;
  const tar = tarOf([...(await busyboxEntries()), ...(await machineProgram('/usr/bin/perl', 'usr/bin/perl'))]);
  await importImage(bed.docker, tar, name, ['ENV PATH=/bin:/usr/bin', 'CMD ["sleep", "300"]'], timeoutSignal(60_000));
  bed.remember(name);
  return name;
}

/** The numbers of system calls that perl has no function for. */
export const numbers =
  process.arch === 'arm64'
    ? {
        ptrace: 117,
        processVmReadv: 270,
        renameat2: 276,
        pidfdOpen: 434,
        pidfdGetfd: 438,
        openat: 56,
        clone: 220,
        exitGroup: 94,
        unshare: 97,
        setns: 268,
        mount: 40,
        bpf: 280,
        clockSettime: 112,
        clone3: 435,
      }
    : {
        ptrace: 101,
        processVmReadv: 310,
        renameat2: 316,
        pidfdOpen: 434,
        pidfdGetfd: 438,
        openat: 257,
        clone: 56,
        exitGroup: 231,
        unshare: 272,
        setns: 308,
        mount: 165,
        bpf: 321,
        clockSettime: 227,
        clone3: 435,
      };
