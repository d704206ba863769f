import type Dockerode from 'dockerode';
import { call } from './engine.ts';

const architectures: Record<string, string> = { x64: 'amd64', ia32: '386' };

/**
 * Returns whether this machine's own binaries run in the engine's containers: it has the same kernel and processor, and is reached by a
 * socket file.
 */
export async function isLocalEngine(docker: Dockerode): Promise<boolean> {
  if (process.platform !== 'linux' || !hasSocketFile(docker)) return false;
  const { Arch, Os } = await call(null, () => docker.version());
  return Os === 'linux' && Arch === (architectures[process.arch] ?? process.arch);
}

/** Returns whether the engine is reached by a socket file, so that its containers' own addresses are reachable too. */
export const hasSocketFile = (docker: Dockerode): boolean => (docker.modem as { socketPath?: unknown }).socketPath !== undefined;
