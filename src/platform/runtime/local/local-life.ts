import { RuntimeUnavailable, type ContainerState } from '../runtime.ts';
import type { Changes } from './changes.ts';
import { CommandRecords } from './command-records.ts';
import { becomes, expectState, reaches } from './container-states.ts';
import type { LocalContainer } from './local-container.ts';
import { liveness, signalProcess } from './processes.ts';
import { addState } from './state-log.ts';

const KILL_MS = 10_000;
const SIGNAL_MS = 5_000;

/** Stops, freezes, thaws and ends the processes of agents on this machine, with their commands. */
export class LocalLife {
  constructor(private readonly changes: Changes) {}

  async stop(container: LocalContainer, graceSeconds: number): Promise<void> {
    if ((await container.view()).state === 'frozen') {
      await addState(container.folder, 'running');
      await this.signalUntil(container, 'SIGCONT', ['running', 'exited']);
    }
    const agent = (await container.lastRun())?.agent ?? null;
    signalProcess(agent, 'SIGTERM', 'process');
    if (!(await reaches(container, ['created', 'exited'], graceSeconds * 1_000))) await this.signalUntil(container, 'SIGKILL', ['exited']);
    await new CommandRecords(container.folder).killAll();
  }

  async freeze(container: LocalContainer): Promise<void> {
    const state = await expectState(container, ['running', 'frozen']);
    if (state === 'running') await addState(container.folder, 'frozen');
    await this.signalUntil(container, 'SIGSTOP', ['frozen']);
    await new CommandRecords(container.folder).signalKept('SIGSTOP');
  }

  async thaw(container: LocalContainer): Promise<void> {
    const state = await expectState(container, ['running', 'frozen']);
    await new CommandRecords(container.folder).signalKept('SIGCONT');
    if (state === 'frozen') await addState(container.folder, 'running');
    await this.signalUntil(container, 'SIGCONT', ['running']);
  }

  /** Ends everything that runs of a container, so that its folder can be removed. */
  async end(container: LocalContainer): Promise<void> {
    const run = await container.lastRun();
    signalProcess(run?.supervisor ?? null, 'SIGKILL', 'process');
    signalProcess(run?.agent ?? null, 'SIGKILL', 'group');
    await new CommandRecords(container.folder).killAll();
    const gone = () => liveness(run?.agent ?? null) === 'gone' && liveness(run?.supervisor ?? null) === 'gone';
    if (!(await becomes(gone, KILL_MS))) throw new RuntimeUnavailable(new Error(`${container.handle} does not end`));
  }

  private async signalUntil(container: LocalContainer, signal: NodeJS.Signals, states: ContainerState[]): Promise<void> {
    const agentId = (await container.view()).agentId;
    signalProcess((await container.lastRun())?.agent ?? null, signal, 'group');
    if (!(await reaches(container, [...states, 'exited'], SIGNAL_MS)))
      throw new RuntimeUnavailable(new Error(`${container.handle} does not follow ${signal}`));
    await this.changes.touch(agentId);
    await expectState(container, states);
  }
}
