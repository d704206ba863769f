import type Dockerode from 'dockerode';
import { call } from './engine.ts';

const architectures: Record<string, string> = { x64: 'amd64', ia32: '386' };

/** Returns whether the engine is reached through a socket file, and this machine's programs run in its containers. */
export async function isLocalEngine(docker: Dockerode): Promise<boolean> {
  return hasSocketFile(docker) && (await runsOurPrograms(docker));
}

/**
 * Returns whether this machine's programs run in the engine's containers: both machines are Linux, with the same processor architecture.
 * The programs get there as images, so the engine may be in a virtual machine, or far away.
 */
export async function runsOurPrograms(docker: Dockerode): Promise<boolean> {
  if (process.platform !== 'linux') return false;
  const { Arch, Os } = await call(null, () => docker.version());
  return Os === 'linux' && Arch === (architectures[process.arch] ?? process.arch);
}

/**
 * Returns whether the engine is reached through a socket file. It may be in a virtual machine, or in its own network namespace, all the
 * same.
 */
export const hasSocketFile = (docker: Dockerode): boolean => (docker.modem as { socketPath?: unknown }).socketPath !== undefined;
