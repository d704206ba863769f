import { Injectable, Logger, type BeforeApplicationShutdown, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';

import { agentEvents, type Agent, type AgentRecord, type AgentSettings } from '../agents/index.ts';
import { pause } from '../platform/async/pause.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../platform/sagas/saga.ts';
import { kindOf } from '../sandboxes/index.ts';
import { EngineView, Reconcilers, type Reconciler } from '../sandboxes/services.ts';
import { AgentKind } from './containers/agent-kind.service.ts';
import type { OwnStep } from './containers/next-step.decider.ts';
import { Differences } from './differences/differences.service.ts';

const EVENTS_AGAIN_MS = 1_000;

/** The settings that are only displayed. */
const WORDS: ReadonlySet<string> = new Set<keyof AgentSettings>(['name', 'description']);

/** Brings every agent's container to the desired state in its stream. What it does for that is the reconciler's. */
@Injectable()
export class DeploymentsSaga implements Saga, OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown {
  readonly name: string;
  /** The filter excludes events that other features write on an agent's stream, because they do not affect its container. */
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: Object.keys(agentEvents) };
  readonly concurrency: number;
  private readonly reconciler: Reconciler<Agent, AgentRecord, OwnStep>;
  private readonly logger = new Logger('Deployments');
  private readonly stopping = new AbortController();
  private following: Promise<void> = Promise.resolve();

  constructor(
    private readonly sagas: Sagas,
    private readonly differences: Differences,
    private readonly engine: EngineView,
    kind: AgentKind,
    reconcilers: Reconcilers,
  ) {
    this.name = kind.saga;
    this.concurrency = reconcilers.passesMax;
    this.reconciler = reconcilers.of(kind, differences);
  }

  onModuleInit(): void {
    this.sagas.register(this);
  }

  onApplicationBootstrap(): void {
    this.following = this.followEngine();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.following;
  }

  keyOf(event: StoredEvent): string | null {
    return changesOnlyWords(event) ? null : idOf(event.stream);
  }

  async resync(maxAgeMs: number): Promise<SagaKey[]> {
    return this.differences.find(maxAgeMs);
  }

  reconcile(agentId: string, pass: SagaPass): Promise<Date | null> {
    return this.reconciler.reconcile(agentId, pass);
  }

  /** Wakes the saga for each event of the engine. The pass finds out by looking what the event means. */
  private async followEngine(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        for await (const event of this.engine.events(signal)) {
          if (event.kind === 'changed') {
            if (kindOf(event.agentId) === 'agent') this.wake(event.agentId);
          }
          // Events were lost, so the list must be a new one.
          else for (const { key, account } of await this.differences.find(0)) this.wake(key, account);
        }
      } catch (error) {
        if (!signal.aborted) this.logger.warn(`engine events: ${String(error)}`);
      }
      if (!signal.aborted) await pause(EVENTS_AGAIN_MS, signal);
    }
  }

  private wake(agentId: string, account: string | null = null): void {
    this.engine.interruptWait(agentId);
    this.sagas.wake(this.name, agentId, account ?? undefined);
  }
}

/** Returns true if the event changes only the name or the description, which do not affect the container. */
function changesOnlyWords({ type, data }: StoredEvent): boolean {
  if (type !== 'AgentConfigured') return false;
  return Object.keys(data.changes as Partial<AgentSettings>).every((setting) => WORDS.has(setting));
}
