import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';

import { agentEvents, type Agent, type AgentRecord, type AgentSettings } from '../agents/index.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../eventsourcing/sagas/saga.ts';
import { Reconcilers, type Reconciler } from '../../sandboxes/services.ts';
import { AGENT_KIND, type AgentKind } from './containers/agent-kind.ts';
import type { OwnStep } from './containers/next-step.decider.ts';

/** The settings that are only displayed. */
const WORDS: ReadonlySet<string> = new Set<keyof AgentSettings>(['name', 'description']);

/** Brings every agent's container to the desired state in its stream. What it does for that is the reconciler's. */
@Injectable()
export class DeploymentsSaga implements Saga, OnModuleInit {
  readonly name: string;
  /** The filter excludes events that other features write on an agent's stream, because they do not affect its container. */
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: Object.keys(agentEvents) };
  readonly concurrency: number;
  private readonly reconciler: Reconciler<Agent, AgentRecord, OwnStep>;

  constructor(
    private readonly sagas: Sagas,
    @Inject(AGENT_KIND) kind: AgentKind,
    reconcilers: Reconcilers,
  ) {
    this.name = kind.saga;
    this.concurrency = reconcilers.passesMax;
    this.reconciler = reconcilers.of(kind);
  }

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string | null {
    return changesOnlyWords(event) ? null : idOf(event.stream);
  }

  resync(maxAgeMs: number): Promise<SagaKey[]> {
    return this.reconciler.find(maxAgeMs);
  }

  reconcile(agentId: string, pass: SagaPass): Promise<Date | null> {
    return this.reconciler.reconcile(agentId, pass);
  }
}

/** Returns true if the event changes only the name or the description, which do not affect the container. */
function changesOnlyWords({ type, data }: StoredEvent): boolean {
  if (type !== 'AgentConfigured') return false;
  return Object.keys(data.changes as Partial<AgentSettings>).every((setting) => WORDS.has(setting));
}
