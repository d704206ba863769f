import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { agentDecider } from '../agents/index.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { ContainerRuntime, RuntimeUnavailable, type RuntimeList } from '../platform/runtime/runtime.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../platform/sagas/saga.ts';
import { LogCapture } from './capture.service.ts';
import { LogRetention } from './log-entries.projection.ts';

const TRIM_EVERY_MS = 3_600_000;
/** Events tell of what starts and ends, so an older list of the engine's containers is good enough to find what was missed, ms. */
const LIST_MAX_AGE_MS = 25_000;
/** Containers that have ended, of which nobody in this process knows whether their last lines were captured: so many are looked at each time. */
const UNDRAINED_AT_A_TIME = 100;

/** Keeps a follower on the output of every container that there is. */
@Injectable()
export class LogsSaga implements Saga, OnModuleInit, OnApplicationShutdown {
  readonly name = 'logs';
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['agent'],
    types: ['ContainerCreated', 'DeploymentSucceeded', 'AgentStarted', 'AgentWoke', 'ContainerExited', 'DeploymentFailed'],
  };
  readonly concurrency = 16;
  /** The agent's last run whose output is complete in the log, so that a stopped agent costs nothing. */
  private readonly drained = new Map<string, string>();
  private trimmedAt = 0;

  constructor(
    private readonly sagas: Sagas,
    private readonly capture: LogCapture,
    private readonly runtime: ContainerRuntime,
    private readonly aggregates: Aggregates,
    private readonly retention: LogRetention,
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

  async resync(): Promise<SagaKey[]> {
    if (Date.now() - this.trimmedAt > TRIM_EVERY_MS) {
      this.trimmedAt = Date.now();
      await this.retention.trim();
    }
    const found = await this.#uncaptured();
    return found.map((key) => ({ key, account: null }));
  }

  async run({ key: agentId, handover, aside, belongsTo }: SagaPass): Promise<Date | null> {
    const { state: agent } = await this.aggregates.load(`agent-${agentId}`, agentDecider);
    if (agent !== null) belongsTo(agent.accountId);
    const { containers } = await this.runtime.inspect(agentId, agent?.generation);
    const started = containers.filter((container) => container.state !== 'created').sort((a, b) => a.generation - b.generation);
    for (const container of started) {
      const run = `${container.handle} ${container.startedAt}`;
      if (container.state !== 'exited') await aside(() => this.capture.follow(container, handover));
      else if (this.drained.get(agentId) !== run) {
        await aside(() => this.capture.drain(container));
        this.drained.set(agentId, run);
      }
    }
    if (containers.length === 0) this.drained.delete(agentId);
    return null;
  }

  /** The agents whose containers run and are not followed here, and some of those whose containers have ended and were not drained. */
  async #uncaptured(): Promise<string[]> {
    const { containers } = await this.#listed();
    const up = containers.filter(({ state }) => state === 'running' || state === 'frozen');
    const ended = containers.filter(({ state }) => state === 'exited');
    const undrained = ended.filter(({ agentId, handle }) => this.drained.get(agentId)?.startsWith(`${handle} `) !== true);
    const standing = new Set(containers.map(({ agentId }) => agentId));
    for (const agentId of this.drained.keys()) if (!standing.has(agentId)) this.drained.delete(agentId);
    const found = [...up.filter((container) => !this.capture.isFollowing(container)), ...undrained.slice(0, UNDRAINED_AT_A_TIME)];
    return [...new Set(found.map(({ agentId }) => agentId))];
  }

  async #listed(): Promise<Pick<RuntimeList, 'containers'>> {
    try {
      return await this.runtime.listed(LIST_MAX_AGE_MS);
    } catch (error) {
      // Its events tell when it is back.
      if (error instanceof RuntimeUnavailable) return { containers: [] };
      throw error;
    }
  }
}
