import type { AgentEgress } from '../kernel/network/allow-list.ts';
import type { TmpfsMount } from './tmpfs-mount.ts';

/** An opaque handle, which is no longer valid after a stop and a wake. */
export type ContainerHandle = string;

export type ContainerState = 'created' | 'running' | 'frozen' | 'exited';

/** The key of a container if its handle is unknown: an agent has at most one container of each generation. */
export interface ContainerName {
  agentId: string;
  generation: number;
}

/** The immutable properties of a container, which are its labels. */
export interface ContainerIdentity extends ContainerName {
  deploymentId: string;
}

/** A container as a bulk list of the engine shows it. */
export interface ListedContainer extends ContainerIdentity {
  handle: ContainerHandle;
  state: ContainerState;
  /** True if an earlier release made the container, under another name: it serves nobody, and is replaced. */
  outdated?: true;
}

export interface RuntimeList {
  containers: readonly ListedContainer[];
  /** The agents whose volumes exist. */
  volumes: readonly string[];
}

export interface ContainerView extends ListedContainer {
  /** The exit code of the last run; null if it has not ended, or the engine does not know. */
  exitCode: number | null;
  /** True if its program may not have begun in the last run, such as when the service that started it was killed in between. */
  notBegun?: true;
  oomKilled: boolean;
  /** The time in ISO 8601; null if it never ran. */
  startedAt: string | null;
  /** The time at which the last run ended; null if it has not, or that is not known. */
  finishedAt: string | null;
}

/** A change of a container to a state, at a time in ISO 8601. */
export interface Transition {
  state: ContainerState;
  at: string;
}

export interface ContainerSpec extends ContainerIdentity {
  /** The pinned image that `ensureImage` returned. */
  image: string;
  /** The command in exec form; null stands for the image's own. */
  command: string[] | null;
  environment: Record<string, string>;
  /** The port on which the agent listens. */
  port: number;
  /** The mount point of the agent's volume. */
  volumePath: string;
  /** The user; null stands for the image's own, and a group alone for it with a user id that no other agent has, as long as the agent lives. */
  user: string | { group: number } | null;
  memoryBytes: number;
  /** The number of cores; 0.5 is half of one. */
  cpus: number;
  pids: number;
  /** The files that one process may have open. */
  openFiles: number;
  readOnlyRoot: boolean;
  egress: AgentEgress;
  tmpfs: TmpfsMount[];
  /** The size of /dev/shm; null stands for the engine's own, 64 MiB. */
  shmBytes: number | null;
  /** True if its programs may make user namespaces, as a browser does for its sandbox. */
  userNamespaces: boolean;
}
