import { randomUUID } from 'node:crypto';

import type { ContainerSpec } from '../../src/runtime/container.ts';

/** Returns what a runtime needs for the first container of a new agent. `other` replaces single fields. */
export function containerSpec(image: string, other: Partial<ContainerSpec> = {}): ContainerSpec {
  return {
    agentId: randomUUID(),
    generation: 1,
    deploymentId: randomUUID(),
    image,
    command: null,
    environment: {},
    port: 8080,
    volumePath: '/data',
    user: null,
    memoryBytes: 64 * 1024 * 1024,
    cpus: 1,
    pids: 64,
    openFiles: 4_096,
    readOnlyRoot: false,
    egress: 'internet',
    tmpfs: [],
    shmBytes: null,
    userNamespaces: false,
    ...other,
  };
}
