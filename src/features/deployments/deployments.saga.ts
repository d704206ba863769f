/*
 * Brings every agent's container to the desired state in its stream. A key is one agent.
 *
 * It owns the choice of events that wake it. It does not own the loop over the steps (`Reconciler` in sandboxes/reconciliation/), the rules
 * (`next-step` in containers/), or what is particular to agents (`AgentKind`).
 *
 * Invariants:
 * A1. There is one saga for an agent's container, not one for each verb: start, stop, sleep, wake, delete and crash share one code path.
 * A2. Events that do not affect the container (other features' events on the agent's stream, changes of name and description) start no
 *     pass.
 */

import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';

import { agentEvents, type Agent, type AgentRecord, type AgentSettings } from '../agents/index.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../eventsourcing/sagas/saga.ts';
import { Reconcilers, type Reconciler } from '../../sandboxes/services.ts';
import { AGENT_KIND, type AgentKind } from './containers/agent-kind.ts';
import type { OwnStep } from './containers/next-step.rules.ts';

/** A2: the settings that are only displayed. */
const DISPLAY_SETTINGS: ReadonlySet<string> = new Set<keyof AgentSettings>(['name', 'description']);

/** Brings every agent's container to the desired state in its stream, by means of the reconciler. */
@Injectable()
export class DeploymentsSaga implements Saga, OnModuleInit {
  readonly name: string;
  /** A2: the filter excludes the events that other features write on an agent's stream. */
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
    return changesOnlyDisplay(event) ? null : idOf(event.stream);
  }

  resync(maxAgeMs: number): Promise<SagaKey[]> {
    return this.reconciler.find(maxAgeMs);
  }

  reconcile(agentId: string, pass: SagaPass): Promise<Date | null> {
    return this.reconciler.reconcile(agentId, pass);
  }
}

/** A2: returns whether the event changes only the name or the description. */
function changesOnlyDisplay({ type, data }: StoredEvent): boolean {
  if (type !== 'AgentConfigured') return false;
  return Object.keys(data.changes as Partial<AgentSettings>).every((setting) => DISPLAY_SETTINGS.has(setting));
}
