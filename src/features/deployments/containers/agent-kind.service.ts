import { Injectable, type OnModuleInit } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { AgentsThatMayWrite, deploymentStep, EveryAgent, LiveAgentIds, type Agent, type AgentRecord } from '../../agents/index.ts';
import { bothOf } from '../../../kernel/async/both-of.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import { RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import type { ContainerKind, KnownSandbox, Pass, SandboxOfAccount, Seen, Work } from '../../../sandboxes/index.ts';
import { ContainerKinds, deadlineSignal, EngineView } from '../../../sandboxes/services.ts';
import { NeededImages } from '../images/image-sweep.queries.ts';
import { AgentRecords } from '../records/agent-records.ts';
import { endedEarly, failureOf } from '../records/failures.ts';
import { AgentContainers } from './agent-containers.service.ts';
import { agentRules } from './agent-rules.ts';
import type { OwnStep } from './next-step.decider.ts';

type AgentWork = Work<Agent, AgentRecord>;

/** Tells the reconciler what is an agent's own: its images, its build log, and the scripts that a deployment ends with. */
@Injectable()
export class AgentKind implements ContainerKind<Agent, AgentRecord, OwnStep>, OnModuleInit {
  readonly kind = 'agent';
  readonly saga = 'deployments';
  readonly readModels = ['agents', 'deployments'];
  readonly rules = agentRules;

  constructor(
    readonly records: AgentRecords,
    readonly containers: AgentContainers,
    private readonly engine: EngineView,
    private readonly kinds: ContainerKinds,
    private readonly queries: QueryBus,
  ) {}

  onModuleInit(): void {
    this.kinds.register(this);
  }

  page(after: string | null, limit: number): Promise<KnownSandbox<Agent>[]> {
    return this.queries.execute(new EveryAgent(after, limit));
  }

  thatMayWrite(since: Date): Promise<SandboxOfAccount[]> {
    return this.queries.execute(new AgentsThatMayWrite(since));
  }

  live(): Promise<string[]> {
    return this.queries.execute(new LiveAgentIds());
  }

  neededImages(digests: readonly string[]): Promise<ReadonlySet<string>> {
    return this.queries.execute(new NeededImages(digests));
  }

  async isClaiming(agentId: string, deploymentId: string): Promise<boolean> {
    const agent = (await this.records.load(agentId))?.state;
    return agent?.status === 'deploying' && agent.deployment?.id === deploymentId;
  }

  /** Records an outcome. The log of a failed deployment first gets the reason, and the last output of the container if there was one. */
  async record(
    { sandboxId: agentId, withoutSlot }: Pass,
    seen: Seen<Agent>,
    record: AgentRecord,
    container: ContainerView | null,
  ): Promise<boolean> {
    if (record.type === 'RecordDeploymentFailure') {
      const log = await this.records.openBuildLog(agentId, seen.state, record.deploymentId);
      if (container !== null) await withoutSlot(() => this.containers.copyLastOutput(container, log));
      log.line(`Failed at ${deploymentStep(seen.state)}: ${record.reason}`);
      await log.flush();
    }
    return this.records.record(agentId, seen, record);
  }

  takeOwn(work: AgentWork, step: OwnStep): Promise<boolean> {
    if (step.do === 'resolve_image') return this.resolveImage(work, step.meanwhile);
    return work.record(work.seen, endedEarly(work.seen.state, step.container), step.container);
  }

  whenReady(work: AgentWork, container: ContainerView): Promise<boolean> {
    if (work.seen.state.status === 'deploying') return this.runScripts(work, container);
    return work.record(work.seen, { type: 'RecordReady', generation: container.generation }, container);
  }

  private async resolveImage(work: AgentWork, meanwhile: AgentRecord | undefined): Promise<boolean> {
    const { pass, seen } = work;
    const { sandboxId: agentId } = pass;
    const agent = seen.state;
    const { images } = this.containers;
    const log = await this.records.openBuildLog(agentId, agent, agent.deployment?.id ?? '');
    try {
      await this.containers.logPrivateVariables(agentId, agent, log);
      const resolve = (signal: AbortSignal) => images.resolve(agentId, agent, log, signal);
      const resolving = this.engine.runWithinDeadline(pass, agent, images.workFor(agent), work.isStale, resolve);
      const [record] = await bothOf(resolving, work.recordMeanwhile(meanwhile));
      // The work may take long. Other events on the stream meanwhile are no reason to repeat it, so the record follows the current
      // revision.
      const now = await this.records.load(agentId);
      // The reason of a failure must be the last line of the log, so the log is written first. The record of an image need not wait for it.
      if (record.type === 'RecordDeploymentFailure') await log.flush();
      const [recorded] = await Promise.all([now !== null && work.record(now, record, null), log.flush()]);
      return recorded;
    } catch (error) {
      await log.flush();
      if (pass.signal.aborted || error instanceof RuntimeUnavailable) throw error;
      if (await work.isOver()) return false;
      throw error;
    }
  }

  /** Runs the scripts of a deployment whose container is ready, and records how the deployment ends. Returns false if it became stale. */
  private async runScripts(work: AgentWork, { generation, handle }: ContainerView): Promise<boolean> {
    const { pass, seen } = work;
    const { sandboxId: agentId } = pass;
    const agent = seen.state;
    const ready = { type: 'RecordReady', generation } as const;
    const deploymentId = agent.deployment?.id ?? '';
    const scripts = await this.containers.contents.scriptsOf(agentId);
    if (scripts.length === 0) return work.record(seen, ready, null);
    if (!(await work.record(seen, { type: 'RecordScriptsBegun', deploymentId, generation }, null))) return false;
    // From here on, a pass that finds this container running removes it.
    pass.started = null;
    const log = await this.records.openBuildLog(agentId, agent, deploymentId);
    const late = deadlineSignal(agent, this.engine.now());
    let failure: string | null;
    try {
      failure = await pass.withoutSlot(() =>
        this.engine.runUntilStale(pass, false, work.isStale, (stale) =>
          this.containers.contents.runScripts(pass, handle, scripts, log, AbortSignal.any([stale, late])),
        ),
      );
    } catch (error) {
      if (pass.signal.aborted || error instanceof RuntimeUnavailable) throw error;
      if (await work.isStale()) return false;
      if (!late.aborted) throw error;
      failure = 'The custom scripts took longer than a deployment may.';
    } finally {
      await log.flush();
    }
    const now = await this.records.load(agentId);
    if (now === null || (await work.isStale())) return false;
    return work.record(now, failure === null ? ready : failureOf(deploymentId, failure), null);
  }
}
