import { agentsProjection, agentView, AgentRow, type AgentView } from '../agents/index.ts';
import { deploymentRecordView, DeploymentRow, deploymentsProjection, type DeploymentRecordView } from '../deployments/index.ts';
import { environmentDecider, keyedVariables, variableView, type EnvironmentEvent, type VariableView } from '../environment/index.ts';
import type { StoredEvent } from '../platform/event-store/event-store.ts';
import { Replay } from '../platform/projections/replay.ts';

/** What callers were answered about an agent at one moment. */
export interface AgentThen {
  /** Null once it was deleted. */
  agent: AgentView | null;
  env: VariableView[];
  /** The latest. */
  deployment: DeploymentRecordView | null;
}

/** One agent as far as its events were taken in: the projections, deciders and views that answer now, over those events alone. */
export class AgentReplay {
  readonly #agents = new Replay(agentsProjection);
  readonly #deployments = new Replay(deploymentsProjection);
  #environment = environmentDecider.initialState();

  constructor(private readonly agentId: string) {}

  /** The next event of the agent's stream. */
  take(event: StoredEvent): void {
    this.#agents.take(event);
    this.#deployments.take(event);
    this.#environment = environmentDecider.evolve(this.#environment, event as unknown as EnvironmentEvent);
  }

  view(): AgentThen {
    const columns = this.#agents.get(this.agentId);
    if (columns === undefined) return { agent: null, env: [], deployment: null };
    const { created_at, updated_at, ...others } = columns;
    // When it was used stands outside the log: of the past it is not known.
    const row: AgentRow = { ...others, created_at: new Date(created_at), updated_at: new Date(updated_at), activity: null };
    const env = keyedVariables(this.#environment).map(variableView);
    return { agent: agentView(row), env, deployment: this.#deployment(row.state.deployment?.id ?? '') };
  }

  #deployment(id: string): DeploymentRecordView | null {
    const columns = this.#deployments.get(id);
    if (columns === undefined) return null;
    const { started_at, completed_at, ...others } = columns;
    const row: DeploymentRow = {
      ...others,
      started_at: new Date(started_at),
      completed_at: completed_at === null ? null : new Date(completed_at),
    };
    return deploymentRecordView(row);
  }
}
