/*
 * Finds out how the commands in agents ended, records that, and lets running commands keep their agents awake. A key is one agent.
 *
 * It owns one pass over the commands of an agent. It does not own the waits for ends (`CommandFollowers`), the questions to containers
 * (`CommandInspector`), or the rules (commands.decider.ts).
 *
 * Invariants:
 * S1. Every recorded command gets a recorded end: a command in a running container is followed, one in a frozen container can't end, and
 *     one whose container is gone has ended.
 * S2. A command that the container knows and the log does not is killed, since each command is recorded before it is started.
 * S3. The time until which commands keep the agent awake is stored before ends are recorded, so that a crash in between does not keep it
 *     awake for an ended command.
 */

import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Activity } from '../../sandboxes/services.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Saga, type SagaKey, type SagaPass, Sagas } from '../../eventsourcing/sagas/saga.ts';
import { sagaStep } from '../../eventsourcing/sagas/saga-step.ts';
import { awakeUntil } from './command-ends.ts';
import { COMMANDS_SAGA, CommandFollowers } from './command-followers.service.ts';
import { CommandInspector, type CommandsInspection } from './command-inspector.service.ts';
import { CommandRecords } from './command-records.service.ts';
import { ENDED_MAX, findCommand, RUNNING_MAX } from './commands.decider.ts';

/** The most commands of a container that one pass checks, since an agent may answer with any number in place of its supervisor. */
const UNLISTED_MAX = RUNNING_MAX + ENDED_MAX;

/**
 * Records how the commands of agents ended, and lets running ones keep their agents awake.
 */
@Injectable()
export class CommandsSaga implements Saga, OnModuleInit {
  readonly name = COMMANDS_SAGA;
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['commands', 'agent'],
    types: [
      'AgentCommandStarted',
      'AgentCommandEnded',
      'AgentCommandRemoved',
      'AgentSlept',
      'AgentWoke',
      'AgentStarted',
      'AgentStopped',
      'AgentFailed',
      'AgentDeleted',
      'ContainerCreated',
      'ContainerExited',
      'DeploymentSucceeded',
      'DeploymentFailed',
    ],
  };
  readonly concurrency = 16;

  constructor(
    private readonly sagas: Sagas,
    private readonly records: CommandRecords,
    private readonly inspector: CommandInspector,
    private readonly followers: CommandFollowers,
    private readonly activity: Activity,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  /** S1: returns the agents in which commands may end that are not followed here. */
  async resync(maxAgeMs: number): Promise<SagaKey[]> {
    const agents = await this.inspector.thatMayChange(maxAgeMs);
    const missed = agents.filter(({ agentId, commandIds }) => !this.followers.isFollowing(agentId, commandIds));
    return missed.map(({ agentId, accountId }) => ({ key: agentId, account: accountId }));
  }

  async reconcile(agentId: string, pass: SagaPass): Promise<Date | null> {
    const commands = await this.records.load(agentId);
    if (commands === null) return null;
    if (commands.running.length === 0) {
      this.followers.unfollow(agentId);
      await this.activity.keepAwakeOnly(agentId, null);
      return null;
    }
    const look = await this.inspector.inspect(agentId, commands.running);
    if (look.account !== null) pass.setAccount(look.account);
    await this.recordEnds(agentId, look);
    await this.removeUnlisted(agentId, look, pass);
    this.follow(agentId, look, pass);
    return nextCheck(look);
  }

  /** S1: records the ends that were seen. S3: stores first how long the other commands keep the agent awake. */
  private async recordEnds(agentId: string, { account, observations, now }: CommandsInspection): Promise<void> {
    const context = systemContext(this.name, account);
    const going = [...observations].flatMap(([command, { kind }]) => (kind === 'ended' ? [] : [command]));
    await this.activity.keepAwakeOnly(agentId, awakeUntil(going, now));
    for (const [{ id: commandId }, each] of observations) {
      if (each.kind !== 'ended') continue;
      const { end, exitCode, outputBytes, droppedBytes } = each;
      await this.records.execute(agentId, { type: 'EndCommand', commandId, end, exitCode, outputBytes, droppedBytes }, context);
      sagaStep(this.name, agentId, 'ended');
    }
  }

  /** S2: removes commands that the container knows, and the log does not know or has removed. */
  private async removeUnlisted(agentId: string, { running }: CommandsInspection, { assertLease }: SagaPass): Promise<void> {
    if (running === null) return;
    const commands = await this.records.load(agentId);
    for (const id of running.commandIds.slice(0, UNLISTED_MAX)) {
      if (findCommand(commands, id) !== null) continue;
      assertLease();
      await this.inspector.remove(running.handle, id);
    }
  }

  private follow(agentId: string, { account, observations, running }: CommandsInspection, { handover }: SagaPass): void {
    // A command that is being started is followed, too: the container will know it soon.
    const commandIds = [...observations].flatMap(([{ id }, { kind }]) => (kind === 'ended' ? [] : [id]));
    if (running === null) this.followers.unfollow(agentId);
    else this.followers.follow({ agentId, account: account ?? '', handle: running.handle, commandIds }, handover);
  }
}

/** Returns when a command has to be checked again without an event; null if none has to. */
function nextCheck({ observations }: CommandsInspection): Date | null {
  const times = [...observations.values()].flatMap((each) =>
    each.kind === 'unknown' && each.until !== null ? [each.until.getTime()] : [],
  );
  return times.length === 0 ? null : new Date(Math.min(...times));
}
