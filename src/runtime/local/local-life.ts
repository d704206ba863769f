import type { ContainerState } from '../container.ts';
import { RuntimeUnavailable } from '../runtime.errors.ts';
import type { Changes } from './changes.ts';
import { CommandRecords } from './command-records.ts';
import { becomes, expectState, reaches } from './container-states.ts';
import type { LocalContainer } from './local-container.ts';
import { killTree, signalTree, treeOf } from './process-trees.ts';
import { liveness, signalProcess, type ProcessMark } from './processes.ts';
import { addState } from './state-log.ts';

const KILL_MS = 10_000;
const SIGNAL_MS = 5_000;

/**
 * Stops, freezes, thaws and kills the processes of agents on this machine, with their commands. Processes that an agent started in sessions
 * of their own, such as a terminal's shell, are included.
 */
export class LocalLife {
  constructor(private readonly changes: Changes) {}

  async stop(container: LocalContainer, graceSeconds: number): Promise<void> {
    if ((await container.view()).state === 'frozen') {
      await addState(container.folder, 'running');
      await this.follow(container, continueAll, ['running', 'exited']);
    }
    const agent = (await container.lastRun())?.agent ?? null;
    const started = liveness(agent) === 'gone' ? [] : treeOf(agent?.pid ?? 0);
    signalProcess(agent, 'SIGTERM', 'process');
    if (!(await reaches(container, ['created', 'exited'], graceSeconds * 1_000))) await this.follow(container, killAll, ['exited']);
    for (const left of started) killTree(left);
    await new CommandRecords(container.folder).killAll();
  }

  async freeze(container: LocalContainer): Promise<void> {
    const state = await expectState(container, ['running', 'frozen']);
    if (state === 'running') await addState(container.folder, 'frozen');
    await this.follow(container, stopAll, ['frozen']);
    await new CommandRecords(container.folder).signalKept('SIGSTOP');
  }

  async thaw(container: LocalContainer): Promise<void> {
    const state = await expectState(container, ['running', 'frozen']);
    await new CommandRecords(container.folder).signalKept('SIGCONT');
    if (state === 'frozen') await addState(container.folder, 'running');
    await this.follow(container, continueAll, ['running']);
  }

  /** Kills all processes of a container, so that its folder can be removed. */
  async end(container: LocalContainer): Promise<void> {
    const run = await container.lastRun();
    signalProcess(run?.supervisor ?? null, 'SIGKILL', 'process');
    if (run?.agent != null) killAll(run.agent);
    await new CommandRecords(container.folder).killAll();
    const gone = () => liveness(run?.agent ?? null) === 'gone' && liveness(run?.supervisor ?? null) === 'gone';
    if (!(await becomes(gone, KILL_MS))) throw new RuntimeUnavailable(new Error(`${container.handle} does not end`));
  }

  /** Signals the agent, and waits until it is in one of the states. Throws `RuntimeRefused` if it has ended instead. */
  private async follow(container: LocalContainer, signal: (agent: ProcessMark) => void, states: ContainerState[]): Promise<void> {
    const { agentId } = await container.view();
    const agent = (await container.lastRun())?.agent ?? null;
    if (agent !== null && liveness(agent) !== 'gone') signal(agent);
    if (!(await reaches(container, [...states, 'exited'], SIGNAL_MS)))
      throw new RuntimeUnavailable(new Error(`${container.handle} does not follow a signal`));
    await this.changes.touch(agentId);
    await expectState(container, states);
  }
}

/** Signals the group, too, for machines on which processes can't be listed. */
function stopAll(agent: ProcessMark): void {
  signalProcess(agent, 'SIGSTOP', 'group');
  signalTree(agent.pid, 'SIGSTOP');
}

function continueAll(agent: ProcessMark): void {
  signalTree(agent.pid, 'SIGCONT');
  signalProcess(agent, 'SIGCONT', 'group');
}

function killAll(agent: ProcessMark): void {
  killTree(agent);
  signalProcess(agent, 'SIGKILL', 'group');
}
