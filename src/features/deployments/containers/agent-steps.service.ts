/*
 * Executes, for the reconciler, the steps that only agents have: they use images, build logs and the scripts that end a deployment.
 *
 * It owns the two long steps of a deployment (resolving the image, running scripts) and the records about them. It does not own the loop
 * over the steps (`Reconciler`), the rules (`next-step`, `agent-rules`), or the contents of containers (`AgentContainers`).
 *
 * Invariants:
 * A1. The reason of a failed deployment is the last line of its build log, so the log is written before the failure is recorded.
 * A2. Scripts never run twice in one container: that they begin is recorded before the first one runs, and a pass that finds such a
 *     container running removes it.
 * A3. Long work runs without a slot of the saga, ends at the deployment's deadline, and stops as soon as the deployment is stale. Other
 *     events on the stream meanwhile do not repeat it: its record follows the stream's present revision.
 * A4. What happened while this process was suspended is checked before a failure is recorded (`isStale`, `isOver`).
 */

import { Injectable } from '@nestjs/common';

import { deploymentStep, type Agent, type AgentRecord } from '../../agents/index.ts';
import type { Wait } from '../../../kernel/limits/fair-limiter.ts';
import { allSettledPair } from '../../../kernel/async/all-settled-pair.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import { RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import type { KindSteps, Pass, Seen, Work } from '../../../sandboxes/index.ts';
import { deadlineSignal, EngineView } from '../../../sandboxes/services.ts';
import { DeploymentImages } from '../images/deployment-images.service.ts';
import { AgentRecords } from '../records/agent-records.ts';
import { exitedEarly, failureOf } from '../records/failures.ts';
import { waitLine } from '../records/wait-line.ts';
import { AgentContainers } from './agent-containers.service.ts';
import { ContainerContents } from './container-contents.service.ts';
import type { OwnStep } from './next-step.rules.ts';

type AgentWork = Work<Agent, AgentRecord>;

/** Does what is an agent's own: its images, its build log, and the scripts that a deployment ends with. */
@Injectable()
export class AgentSteps implements KindSteps<Agent, AgentRecord, OwnStep> {
  constructor(
    private readonly records: AgentRecords,
    private readonly images: DeploymentImages,
    private readonly contents: ContainerContents,
    private readonly containers: AgentContainers,
    private readonly engine: EngineView,
  ) {}

  /** Records an outcome. A1: the log of a failed deployment first gets the container's last output, if there was one, and the reason. */
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

  executeOwn(work: AgentWork, step: OwnStep): Promise<boolean> {
    if (step.do === 'resolve_image') return this.resolveImage(work, step.meanwhile);
    return work.record(work.seen, exitedEarly(work.seen.state, step.container), step.container);
  }

  whenReady(work: AgentWork, container: ContainerView): Promise<boolean> {
    if (work.seen.state.status === 'deploying') return this.runScripts(work, container);
    return work.record(work.seen, { type: 'RecordReady', generation: container.generation }, container);
  }

  private async resolveImage(work: AgentWork, meanwhile: AgentRecord | undefined): Promise<boolean> {
    const { pass, seen } = work;
    const { sandboxId: agentId } = pass;
    const agent = seen.state;
    const log = await this.records.openBuildLog(agentId, agent, agent.deployment?.id ?? '');
    try {
      await this.containers.logPrivateVariables(agentId, agent, log);
      const kind = this.images.workFor(agent);
      const run = (signal: AbortSignal) => this.images.resolve(agentId, agent, log, signal);
      const onWait = (wait: Wait) => log.line(waitLine(kind, wait));
      const resolving = this.engine.runWithinDeadline(pass, agent, { kind, isStale: work.isStale, run, onWait });
      const [record] = await allSettledPair(resolving, work.recordMeanwhile(meanwhile));
      // A3
      const now = await this.records.load(agentId);
      // A1. The record of an image need not wait for the log.
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

  /** Runs the scripts of a deployment whose container is ready, and records the outcome. Returns false if the deployment became stale. */
  private async runScripts(work: AgentWork, { generation, handle }: ContainerView): Promise<boolean> {
    const { pass, seen } = work;
    const { sandboxId: agentId } = pass;
    const agent = seen.state;
    const ready = { type: 'RecordReady', generation } as const;
    const deploymentId = agent.deployment?.id ?? '';
    const scripts = await this.contents.scriptsOf(agentId);
    if (scripts.length === 0) return work.record(seen, ready, null);
    if (!(await work.record(seen, { type: 'RecordScriptsBegun', deploymentId, generation }, null))) return false;
    // A2
    pass.started = null;
    const log = await this.records.openBuildLog(agentId, agent, deploymentId);
    const late = deadlineSignal(agent, this.engine.now());
    let failure: string | null;
    try {
      failure = await pass.withoutSlot(() =>
        this.engine.runUntilStale(pass, false, work.isStale, (stale) =>
          this.contents.runScripts(pass, handle, scripts, log, AbortSignal.any([stale, late])),
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
