/**
 * Checks the dependencies of the service for `/ready`.
 *
 * Owns: the last result, which serves all callers for a second. Does not own the checks of the dependencies themselves.
 *
 * R1  A check is cheap for its callers: anybody may call, so they share one check at a time, and each dependency has a timeout.
 * R2  The service is unavailable only without a required dependency: the database, the event store, and read models until each is filled
 *     and has caught up. Otherwise it is at most degraded.
 * R3  No detail names anything that a stranger may not read.
 */
import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';

import { CachedResult } from '../../kernel/async/cached-result.ts';
import { Database } from '../../postgres/database/database.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';
import { hasGit } from '../../builds/git/git-process.ts';
import { type ReadModelProgress, ReadModels } from '../../eventsourcing/projections/projection.ts';
import type { AgentPorts } from '../../runtime/agent-ports.ts';
import type { DockerfileBuilds, EgressStatus, EngineStatus } from '../../runtime/engine-status.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { DependencyDto, ReadinessDto } from './health.dto.ts';

/** R1: The time after which a dependency counts as unavailable, in ms. */
const PING_TIMEOUT_MS = 3_000;
/** Log retention is reported as late once it is this far behind, in ms. */
const RETENTION_LATE_MS = 3_600_000;
/** R1: The time for which a result serves all callers, in ms. */
const CACHE_MS = 1_000;

/** Checks the dependencies of the service. */
@Injectable()
export class ReadinessChecks {
  private readonly cached = new CachedResult(() => this.check(), CACHE_MS);
  /** The value is true if all read models were ready at the last successful check. */
  private wereReady = false;

  constructor(private readonly modules: ModuleRef) {}

  /** R1: Returns the latest result, at most a second old. Callers share the check in progress. */
  latest(): Promise<Required<ReadinessDto>> {
    return this.cached.get();
  }

  /** R2: Returns `unavailable` if a required dependency is unavailable, and `degraded` if another one is. */
  private async check(): Promise<Required<ReadinessDto>> {
    const dependencies = await Promise.all([
      this.ping('database', true, Database, (database) => database.ping()),
      this.ping('event_store', true, EventStore, (store) => store.ping()),
      this.readModels(),
      this.ping('log_retention', false, EventStore, async (store) => {
        const { caughtUpAt, error } = (await store.retention()) ?? { caughtUpAt: null, error: null };
        const isLate = caughtUpAt !== null && Date.now() - Date.parse(caughtUpAt) > RETENTION_LATE_MS;
        if (isLate) throw new Error(error ?? 'old output is not removed as fast as it should be');
      }),
      this.containerEngine(),
      this.agentEgress(),
      this.agentPorts(),
      this.dockerfileBuilds(),
      this.git(),
    ]).then((looked) => looked.filter((dependency) => dependency !== null));
    const away = dependencies.filter(({ status }) => status === 'unavailable');
    const status = away.some(({ required }) => required) ? 'unavailable' : away.length > 0 ? 'degraded' : 'ready';
    return { status, dependencies };
  }

  /**
   * R2: Checks the read models. A stopped one serves its rows on every replica alike, so the service is only degraded. It is also only
   * degraded if all were ready before and the query of their progress times out, since that query waits for a connection behind those of
   * requests.
   */
  private async readModels(): Promise<DependencyDto> {
    let progress: ReadModelProgress[] = [];
    const looked = await this.ping('read_models', true, ReadModels, async (readModels) => {
      progress = await readModels.progress();
      this.wereReady = progress.every(({ ready }) => ready);
    });
    if (looked.status === 'unavailable') return { name: looked.name, status: looked.status, required: !this.wereReady };
    const wrong = progress.filter(({ reason }) => reason !== null);
    if (wrong.length === 0) return looked;
    return {
      name: looked.name,
      status: 'unavailable',
      required: wrong.some(({ ready }) => !ready),
      detail: wrong.map(({ name, reason }) => `${name} ${reason}`).join('; '),
    };
  }

  /** Checks the engine. It is unavailable if no agent can start on it. Any other problem is a detail, and does not change the status. */
  private async containerEngine(): Promise<DependencyDto> {
    let engine: EngineStatus = { lack: null, warnings: [] };
    const looked = await this.ping('runtime', false, ContainerRuntime, async (runtime) => {
      engine = await runtime.engineStatus();
      await runtime.ping();
    });
    const { name, status, required } = looked;
    if (engine.lack !== null) return { name, status: 'unavailable', required, detail: engine.lack };
    return status === 'unavailable' || engine.warnings.length === 0
      ? looked
      : { name, status, required, detail: engine.warnings.join('; ') };
  }

  /** Checks whether the egress rules are enforced. Returns null if the runtime has no such rules, or is unavailable. */
  private async agentEgress(): Promise<DependencyDto | null> {
    let status = null as EgressStatus | null;
    const looked = await this.ping('agent_egress', false, ContainerRuntime, async (runtime) => void (status = await runtime.egress()));
    const lacks = problemsOf(status);
    if (lacks === null) return null;
    return lacks.length === 0 ? looked : { name: looked.name, status: 'unavailable', required: false, detail: lacks.join('; ') };
  }

  /** Checks whether agents' ports are protected from other clients. Returns null if no other client could reach them. */
  private async agentPorts(): Promise<DependencyDto | null> {
    let ports: AgentPorts | null | undefined;
    const looked = await this.ping('agent_ports', false, ContainerRuntime, async (runtime) => {
      ports = await runtime.agentPorts();
    });
    if (ports == null) return null;
    const { name, required } = looked;
    if (ports.lack === null) return { name, status: 'ok', required, detail: ports.weakness };
    return { name, status: 'unavailable', required, detail: `no agent starts, since others are not kept from its port: ${ports.lack}` };
  }

  /**
   * Checks whether Dockerfiles can be built. A weakness of the configured builder is a detail, and does not degrade the service. Returns
   * null if the runtime builds no Dockerfiles.
   */
  private async dockerfileBuilds(): Promise<DependencyDto | null> {
    let builds: DockerfileBuilds | null | undefined;
    const looked = await this.ping('image_builds', false, ContainerRuntime, async (runtime) => {
      builds = await runtime.dockerfileBuilds();
    });
    if (builds == null) return null;
    const { name, status, required } = looked;
    if (builds.lack !== null) return { name, status: 'unavailable', required, detail: builds.lack };
    return builds.weakness === null ? looked : { name, status, required, detail: builds.weakness };
  }

  /** Checks whether repositories can be fetched. */
  private async git(): Promise<DependencyDto> {
    const name = 'git';
    if (await hasGit()) return { name, status: 'ok', required: false };
    const detail = 'this machine has no git, without which deployments from repositories fail: install it';
    return { name, status: 'unavailable', required: false, detail };
  }

  private async ping<T>(
    name: string,
    required: boolean,
    token: abstract new (...parts: never[]) => T,
    answer: (part: T) => Promise<void>,
  ): Promise<DependencyDto> {
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error('no answer')), PING_TIMEOUT_MS)));
      await Promise.race([answer(this.modules.get<T>(token as never, { strict: false })), late]);
      return { name, status: 'ok', required };
    } catch {
      return { name, status: 'unavailable', required };
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Returns what is not enforced, one sentence each. */
function problemsOf(status: EgressStatus | null): string[] | null {
  if (status === null) return null;
  const lacks = {
    'what agents may reach is not enforced': status.lack,
    'agents are not kept from each other’s frames': status.linkLack,
    'agents with a list of names reach nothing': status.proxyLack,
  };
  return Object.entries(lacks).flatMap(([what, why]) => (why === null ? [] : [`${what}: ${why}`]));
}
