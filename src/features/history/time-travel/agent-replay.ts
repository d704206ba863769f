/*
 * An agent as it was at an earlier moment: a replay of the first events of its stream.
 *
 * It owns nothing but the folded state. It does not own which events belong to the moment (time-travel.handlers.ts).
 *
 * Invariants:
 * R1. The past is computed by the same code as the present: the projections, deciders and views that answer callers now. So a change of a
 *     rule or a view changes both, and they can't differ.
 * R2. What is not in the log (the last use, the service's own address) is unknown for the past, and shown as such.
 */

import { toAgentDto, type AgentDto } from '../../agents/index.ts';
import { agentsProjection } from '../../agents/services.ts';
import { toDeploymentRecordDto, deploymentsProjection, type DeploymentRecordDto } from '../../deployments/index.ts';
import { environmentDecider, keyedVariables, toVariableDto, type EnvironmentEvent, type VariableDto } from '../../environment/index.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { Replay } from '../../../eventsourcing/projections/tables/replay.ts';

/** An agent as callers saw it at one moment. */
export interface PastAgent {
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

  /** Applies the next event of the agent's stream. */
  apply(event: StoredEvent): void {
    this.agents.apply(event);
    this.deployments.apply(event);
    this.environment = environmentDecider.evolve(this.environment, event as unknown as EnvironmentEvent);
  }

  view(): PastAgent {
    const row = this.agents.read(this.agentId);
    if (row === undefined) return { agent: null, env: [], deployment: null };
    const env = keyedVariables(this.environment).map(toVariableDto);
    const deployment = this.deployments.read(row.state.deployment?.id ?? '');
    return {
      // R2
      agent: toAgentDto({ ...row, activity: null, public_url: null }),
      env,
      deployment: deployment === undefined ? null : toDeploymentRecordDto(deployment),
    };
  }
}
