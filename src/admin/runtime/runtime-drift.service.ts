import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { isInTransit, LiveAgentIds, type Agent } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import { LastImageSweep } from '../../deployments/index.ts';
import { kindOf } from '../../sandboxes/index.ts';
import { ContainerRuntime, type ContainerState, type ListedContainer } from '../../platform/runtime/runtime.ts';
import type { EngineContainerDto, EngineImagesDto, RuntimeDto } from './runtime.dto.ts';

/** The number of streams that are read concurrently. */
const AT_ONCE = 16;

/** Compares the engine's containers and volumes with the log, and tells what its images take. It changes nothing. */
@Injectable()
export class RuntimeDrift {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly agents: Agents,
    private readonly queries: QueryBus,
  ) {}

  /** Returns the comparison and the images. Throws `RuntimeUnavailable`. */
  async find(): Promise<RuntimeDto> {
    const listed = await this.runtime.list();
    const containers = listed.containers.filter(({ agentId }) => kindOf(agentId) === 'agent');
    const volumes = listed.volumes.filter((agentId) => kindOf(agentId) === 'agent');
    const live = await this.queries.execute(new LiveAgentIds());
    const agents = await this.existing([...new Set([...containers.map(({ agentId }) => agentId), ...volumes, ...live])]);
    const seen = containers.map((container) => ({ container, judged: judged(container, agents.get(container.agentId) ?? null) }));
    const housed = new Set(containers.map(({ agentId }) => agentId));
    return {
      engine: this.runtime.name,
      containers: seen.map((each) => each.judged),
      orphans: {
        containers: seen.filter((each) => each.judged.verdict === 'orphan').map(({ container }) => container.handle),
        volumes: volumes.filter((agentId) => !agents.has(agentId)).map((agentId) => `mooring-${agentId}`),
      },
      missing: [...agents]
        .filter(([agentId, agent]) => !housed.has(agentId) && wantedStates(agent).length > 0 && !isInTransit(agent))
        .map(([agent_id, { status }]) => ({ agent_id, agent_status: status })),
      images: await this.images(),
    };
  }

  private async images(): Promise<EngineImagesDto> {
    const { own, ownBytes, all } = await this.runtime.images.list();
    return { own: { count: own.length, bytes: ownBytes }, all, last_sweep: await this.queries.execute(new LastImageSweep()) };
  }

  /** Returns those of the agents that exist, as their streams describe them. */
  private async existing(ids: string[]): Promise<Map<string, Agent>> {
    const found = new Map<string, Agent>();
    for (let from = 0; from < ids.length; from += AT_ONCE)
      await Promise.all(
        ids.slice(from, from + AT_ONCE).map(async (agentId) => {
          const { state } = await this.agents.find(agentId);
          if (state !== null && state.status !== 'deleted') found.set(agentId, state);
        }),
      );
    return found;
  }
}

function judged({ agentId, generation, deploymentId, state, outdated }: ListedContainer, agent: Agent | null): EngineContainerDto {
  return {
    agent_id: agentId,
    generation,
    deployment_id: deploymentId,
    state,
    agent_status: agent?.status ?? null,
    wanted_generation: agent?.generation ?? null,
    verdict: outdated && agent !== null ? 'drifted' : verdictOn(generation, state, agent),
  };
}

function verdictOn(generation: number, state: ContainerState, agent: Agent | null): EngineContainerDto['verdict'] {
  if (agent === null) return 'orphan';
  if (isInTransit(agent) || agent.status === 'deleting') return 'in_transit';
  if (generation < agent.generation) return 'orphan';
  const wanted = wantedStates(agent);
  return wanted.length === 0 || wanted.includes(state) ? 'as_wanted' : 'drifted';
}

/** Returns the states in which a settled agent's container may be; an empty list means that it need not exist. */
function wantedStates({ status, sleepDepth, wantedSleep }: Agent): ContainerState[] {
  if (status === 'active') return ['running'];
  if (status === 'sleeping' && sleepDepth === 'frozen' && wantedSleep !== 'stopped') return ['frozen'];
  return [];
}
