import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { LastImageSweep } from '../../deployments/index.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ListedContainer } from '../../../runtime/container.ts';
import { computerIdOf, kindOf, type FollowedKind } from '../../../sandboxes/index.ts';
import type { Sandbox } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import { ContainerKinds } from '../../../sandboxes/services.ts';
import type { EngineContainerDto, EngineImagesDto, OwnerDto, RuntimeDto } from './runtime.dto.ts';

/** The number of streams that are read concurrently. */
const CONCURRENT_READS_MAX = 16;

/** An existing sandbox with the rules of its kind. */
interface KnownOwner {
  sandbox: Sandbox;
  rules: FollowedKind['rules'];
}

/** Compares the engine's containers and volumes with the log, and reports the size of its images. It changes nothing. */
@Injectable()
export class RuntimeDrift {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly kinds: ContainerKinds,
    private readonly queries: QueryBus,
  ) {}

  /** Returns the comparison and the images. Throws `RuntimeUnavailable`. */
  async find(): Promise<RuntimeDto> {
    const listed = await this.runtime.list();
    const containers = listed.containers.filter(({ agentId }) => this.kinds.of(agentId) !== null);
    const volumes = listed.volumes.filter((sandboxId) => this.kinds.of(sandboxId) !== null);
    const live = (await Promise.all(this.kinds.all().map(({ rows }) => rows.live()))).flat();
    const known = await this.existing([...new Set([...containers.map(({ agentId }) => agentId), ...volumes, ...live])]);
    const seen = containers.map((container) => ({ container, judged: toContainerDto(container, known.get(container.agentId) ?? null) }));
    const housed = new Set(containers.map(({ agentId }) => agentId));
    return {
      engine: this.runtime.name,
      containers: seen.map((each) => each.judged),
      orphans: {
        containers: seen.filter((each) => each.judged.verdict === 'orphan').map(({ container }) => container.handle),
        volumes: volumes.filter((sandboxId) => !known.has(sandboxId)).map((sandboxId) => `mooring-${sandboxId}`),
      },
      missing: [...known]
        .filter(
          ([sandboxId, { sandbox, rules }]) =>
            !housed.has(sandboxId) && rules.wantedStates(sandbox).length > 0 && !rules.isInTransit(sandbox),
        )
        .map(([sandboxId, sandbox]) => ownerDto(sandboxId, sandbox)),
      images: await this.images(),
    };
  }

  private async images(): Promise<EngineImagesDto> {
    const { own, ownBytes, all } = await this.runtime.images.list();
    return { own: { count: own.length, bytes: ownBytes }, all, last_sweep: await this.queries.execute(new LastImageSweep()) };
  }

  /** Returns the sandboxes that exist, from their streams. */
  private async existing(ids: string[]): Promise<Map<string, KnownOwner>> {
    const found = new Map<string, KnownOwner>();
    for (let from = 0; from < ids.length; from += CONCURRENT_READS_MAX)
      await Promise.all(
        ids.slice(from, from + CONCURRENT_READS_MAX).map(async (sandboxId) => {
          const kind = this.kinds.of(sandboxId);
          const seen = await kind?.records.load(sandboxId);
          if (kind !== null && seen != null && !kind.rules.isGone(seen.state))
            found.set(sandboxId, { sandbox: seen.state, rules: kind.rules });
        }),
      );
    return found;
  }
}

function toContainerDto(container: ListedContainer, known: KnownOwner | null): EngineContainerDto {
  const { agentId, generation, deploymentId, state, outdated } = container;
  return {
    ...ownerDto(agentId, known),
    generation,
    deployment_id: kindOf(agentId) === 'agent' ? deploymentId : null,
    state,
    wanted_generation: known?.sandbox.generation ?? null,
    verdict: outdated && known !== null ? 'drifted' : verdictOn(container, known),
  };
}

function ownerDto(sandboxId: string, known: KnownOwner | null): Pick<OwnerDto, keyof OwnerDto> {
  const status = known?.rules.statusOf(known.sandbox) ?? null;
  if (kindOf(sandboxId) === 'agent') return { agent_id: sandboxId, computer_id: null, agent_status: status, computer_status: null };
  return { agent_id: null, computer_id: computerIdOf(sandboxId), agent_status: null, computer_status: status };
}

function verdictOn({ generation, state }: ListedContainer, known: KnownOwner | null): EngineContainerDto['verdict'] {
  if (known === null) return 'orphan';
  const { sandbox, rules } = known;
  if (rules.isInTransit(sandbox) || rules.isBeingDeleted(sandbox)) return 'in_transit';
  if (generation < sandbox.generation) return 'orphan';
  const wanted = rules.wantedStates(sandbox);
  return wanted.length === 0 || wanted.includes(state) ? 'as_wanted' : 'drifted';
}
