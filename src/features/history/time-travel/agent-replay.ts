import { toAgentDto, type AgentDto } from '../../agents/index.ts';
import { agentsProjection } from '../../agents/services.ts';
import { toDeploymentRecordDto, deploymentsProjection, type DeploymentRecordDto } from '../../deployments/index.ts';
import { environmentDecider, keyedVariables, toVariableDto, type EnvironmentEvent, type VariableDto } from '../../environment/index.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { Replay } from '../../../eventsourcing/projections/tables/replay.ts';

/** The state of an agent that callers saw at one moment. */
export interface AgentThen {
  /** The agent; null if it was deleted. */
  agent: AgentDto | null;
  env: VariableDto[];
  /** The latest deployment. */
  deployment: DeploymentRecordDto | null;
}

/** Rebuilds one agent from a part of its events, with the projections, deciders and views that serve the current state. */
export class AgentReplay {
  private readonly agents = new Replay(agentsProjection);
  private readonly deployments = new Replay(deploymentsProjection);
  private environment = environmentDecider.initialState();

  constructor(private readonly agentId: string) {}

  /** Takes in the next event of the agent's stream. */
  take(event: StoredEvent): void {
    this.agents.take(event);
    this.deployments.take(event);
    this.environment = environmentDecider.evolve(this.environment, event as unknown as EnvironmentEvent);
  }

  view(): AgentThen {
    const row = this.agents.read(this.agentId);
    if (row === undefined) return { agent: null, env: [], deployment: null };
    const env = keyedVariables(this.environment).map(toVariableDto);
    const deployment = this.deployments.read(row.state.deployment?.id ?? '');
    return {
      // The time of the last use and the service's own address are not in the log, so they are unknown for the past.
      agent: toAgentDto({ ...row, activity: null, public_url: null }),
      env,
      deployment: deployment === undefined ? null : toDeploymentRecordDto(deployment),
    };
  }
}
