import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { RunningEngine } from './scale-bed.ts';

/** The image of the agents, which answer each message at once. */
export const RELAY_IMAGE = 'bench/agent:1';

/** A stand-in for an engine, and the agents in it, in a process of their own. */
export interface RelayAgents extends RunningEngine {
  /** Returns the addresses of all agents. */
  addresses(): Promise<string[]>;
}

export async function startRelayAgents(): Promise<RelayAgents> {
  const child = fork(join(import.meta.dirname, 'relay-agents-program.ts'), { execArgv: ['--import', './scripts/typescript.mjs'] });
  const [{ environment }] = (await once(child, 'message')) as [{ environment: Record<string, string> }];
  return {
    environment,
    onMachine: false,
    addresses: async () => {
      child.send('addresses');
      const [{ addresses }] = (await once(child, 'message')) as [{ addresses: string[] }];
      return addresses;
    },
    close: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.send('close');
      await once(child, 'exit');
    },
  };
}
