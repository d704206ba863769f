import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { LiveAgentIds } from '../agents/index.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { ContainerRuntime } from '../platform/runtime/runtime.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../platform/sagas/saga.ts';
import { LogCapture } from './capture.service.ts';
import { LogRetention } from './log-entries.projection.ts';

const TRIM_EVERY_MS = 3_600_000;

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
    private readonly queries: QueryBus,
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
    const live = await this.queries.execute(new LiveAgentIds());
    return live.map((key) => ({ key, account: null }));
  }

  async run({ key: agentId, handover }: SagaPass): Promise<Date | null> {
    const { containers } = await this.runtime.inspect(agentId);
    const started = containers.filter((container) => container.state !== 'created').sort((a, b) => a.generation - b.generation);
    for (const container of started) {
      const run = `${container.handle} ${container.startedAt}`;
      if (container.state !== 'exited') await this.capture.follow(container, handover);
      else if (this.drained.get(agentId) !== run) {
        await this.capture.drain(container);
        this.drained.set(agentId, run);
      }
    }
    if (containers.length === 0) this.drained.delete(agentId);
    return null;
  }
}
