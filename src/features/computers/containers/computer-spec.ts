import type { Config } from '../../../kernel/config/config.ts';
import type { ContainerSpec } from '../../../runtime/container.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import { resourcesOf } from '../memory/computer-sizes.ts';

const HOME = '/home/user';
const SOCKETS = '/run/user/1000';
/** The group of every computer's user, whose id is its own. */
const GROUP = 1_000;
/** No program listens there: a desktop is reached by a socket. */
const PORT = 5_900;
const MIB = 1_048_576;
/** The shared memory of a computer, in which a browser draws: an eighth of its memory, 1 GiB at most. */
const SHM_SHARE = 1 / 8;
const SHM_BYTES_MAX = 1_024 * MIB;

/** Returns the container of the computer's generation: with the settings that it had when the generation began. */
export function computerSpec(
  sandboxId: string,
  { boot, image, settings }: Computer,
  variables: Record<string, string>,
  config: Config,
): ContainerSpec {
  if (image === null) throw new Error('a computer without an image has no container');
  const { cpus, memoryMb } = resourcesOf(boot.size, config);
  const { width, height } = boot.display;
  return {
    agentId: sandboxId,
    generation: boot.generation,
    deploymentId: sandboxId,
    image,
    command: null,
    environment: {
      ...variables,
      HOME,
      DISPLAY: ':1',
      XDG_RUNTIME_DIR: SOCKETS,
      DESKTOP_SIZE: `${width}x${height}`,
      TZ: settings.timezone,
    },
    port: PORT,
    volumePath: HOME,
    user: { group: GROUP },
    memoryBytes: memoryMb * MIB,
    cpus,
    pids: 1_024,
    openFiles: config.agentOpenFiles,
    readOnlyRoot: false,
    egress: boot.egress ?? 'internet',
    tmpfs: [
      { path: '/tmp', mode: 0o1777, exec: true },
      { path: SOCKETS, mode: 0o700 },
    ],
    shmBytes: Math.min(memoryMb * MIB * SHM_SHARE, SHM_BYTES_MAX),
    userNamespaces: true,
  };
}
