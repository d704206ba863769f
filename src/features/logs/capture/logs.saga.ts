import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Agents } from '../../agents/services.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { kindOf } from '../../../sandboxes/index.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ListedContainer } from '../../../runtime/container.ts';
import { RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../../eventsourcing/sagas/saga.ts';
import { LogCapture } from './log-capture.service.ts';
import { DrainedRuns } from '../output/drained-runs.ts';

/** The most exited containers with possibly uncaptured output that one resync checks. */
const UNDRAINED_PER_RESYNC_MAX = 100;
/** The time until an agent is looked at again whose container is about to be started, in ms. No event says that a release command was started. */
const STARTING_AGAIN_MS = 1_000;

/** Keeps a follower for the output of every container. */
@Injectable()
export class LogsSaga implements Saga, OnModuleInit, OnApplicationShutdown {
  readonly name = 'logs';
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['agent'],
    types: [
      'ReleaseCommandBegun',
      'ContainerCreated',
      'DeploymentSucceeded',
      'AgentStarted',
      'AgentWoke',
      'ContainerExited',
      'DeploymentFailed',
    ],
  };
  readonly concurrency = 16;

  constructor(
    private readonly sagas: Sagas,
    private readonly capture: LogCapture,
    private readonly runtime: ContainerRuntime,
    private readonly agents: Agents,
    private readonly drained: DrainedRuns,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.capture.stop();
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  /** Returns the agents whose running containers are not followed here, and some of those whose exited containers were not drained. */
  async resync(maxAgeMs: number): Promise<SagaKey[]> {
    const containers = await this.listContainers(maxAgeMs);
    if (containers === null) return [];
    const up = containers.filter(({ state }) => state === 'running' || state === 'frozen');
    const ended = containers.filter(({ state }) => state === 'exited');
    await this.drained.retainOnly(new Set(containers.map(({ agentId }) => agentId)));
    const undrained = await this.drained.firstMissing(ended, UNDRAINED_PER_RESYNC_MAX);
    const found = [...up.filter((container) => !this.capture.isFollowing(container)), ...undrained];
    return [...new Set(found.map(({ agentId }) => agentId))].map((key) => ({ key, account: null }));
  }

  async reconcile(agentId: string, { handover, withoutSlot, setAccount }: SagaPass): Promise<Date | null> {
    const { state: agent } = await this.agents.find(agentId);
    const account = agent?.accountId ?? '';
    if (agent !== null) setAccount(account);
    const { containers } = await this.runtime.inspect(agentId, agent?.generation);
    const started = containers.filter((container) => container.state !== 'created').sort((a, b) => a.generation - b.generation);
    for (const container of started) {
      if (container.state !== 'exited') await withoutSlot(() => this.capture.follow(container, account, handover));
      else if (!this.drained.has(container) && (await withoutSlot(() => this.capture.drain(container, account))))
        await this.drained.add(container);
    }
    if (containers.length === 0) await this.drained.delete([agentId]);
    const newest = containers.toSorted((a, b) => b.generation - a.generation)[0];
    return agent?.status === 'deploying' && newest?.state === 'created' ? new Date(Date.now() + STARTING_AGAIN_MS) : null;
  }

  /** Lists the containers of agents. Returns null if the engine is unavailable; its events report when it is back. */
  private async listContainers(maxAgeMs: number): Promise<readonly ListedContainer[] | null> {
    try {
      const { containers } = await this.runtime.listCached(maxAgeMs);
      return containers.filter(({ agentId }) => kindOf(agentId) === 'agent');
    } catch (error) {
      if (error instanceof RuntimeUnavailable) return null;
      throw error;
    }
  }
}
