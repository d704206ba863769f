/*
 * Executes, for the reconciler, the steps that only agents have: they use images, build logs and the commands of a deployment.
 *
 * It owns the long steps of a deployment (resolving the image, running its commands) and the records about them. It does not own the loop
 * over the steps (`Reconciler`), the rules (`next-step`, `agent-rules`), or the contents of containers (`AgentContainers`).
 *
 * Invariants:
 * A1. The reason of a failed deployment is the last line of its build log, so the log is written before the failure is recorded.
 * A2. Scripts never run twice in one container, and a release command never twice in one deployment: that they begin is recorded before. A pass
 *     that finds a container running in which scripts have begun removes it; one that finds the release command running waits for its end.
 * A3. Long work runs without a slot of the saga, ends at the deployment's deadline, and stops as soon as the deployment is stale. Other
 *     events on the stream meanwhile do not repeat it: its record follows the stream's present revision.
 * A4. What happened while this process was suspended is checked before a failure is recorded (`isStale`, `isOver`).
 * A5. The time of a deployment begins when it has a place to build or pull. Until then it is queued, and only if it has to wait, that has a
 *     deadline of its own, which is recorded when the wait begins. The same holds for one that had begun and waits again, because the service ended:
 *     its time begins again, but ends at most the time of one wait after its first deadline.
 */

import { Injectable } from '@nestjs/common';

import { deploymentStep, type Agent, type AgentRecord } from '../../agents/index.ts';
import type { Wait } from '../../../kernel/limits/fair-limiter.ts';
import { allSettledPair } from '../../../kernel/async/all-settled-pair.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import { RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import type { KindSteps, Pass, Seen } from '../../../sandboxes/index.ts';
import { isOverdue } from '../../../sandboxes/lifecycle/steps.rules.ts';
import { deadlineSignal, EngineView } from '../../../sandboxes/services.ts';
import { DeploymentImages } from '../images/deployment-images.service.ts';
import { AgentRecords } from '../records/agent-records.ts';
import type { BuildLog } from '../records/build-log.ts';
import { exitedEarly } from '../records/failures.ts';
import { waitLine } from '../records/wait-line.ts';
import { AgentContainers } from './agent-containers.service.ts';
import { DeploymentCommands, type AgentWork } from './deployment-commands.service.ts';
import type { OwnStep } from './next-step.rules.ts';

/** Does what is an agent's own: its images, its build log, and the commands that belong to a deployment. */
@Injectable()
export class AgentSteps implements KindSteps<Agent, AgentRecord, OwnStep> {
  constructor(
    private readonly records: AgentRecords,
    private readonly images: DeploymentImages,
    private readonly commands: DeploymentCommands,
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
    switch (step.do) {
      case 'resolve_image':
        return this.resolveImage(work);
      case 'follow_release':
        return this.commands.followRelease(work, step.container);
      case 'end_release':
        return this.commands.endRelease(work, step.container);
      case 'fail_exited':
        return work.record(work.seen, exitedEarly(work.seen.state, step.container), step.container);
    }
  }

  whenReady(work: AgentWork, container: ContainerView): Promise<boolean> {
    if (work.seen.state.status === 'deploying') return this.commands.runScripts(work, container);
    return work.record(work.seen, { type: 'RecordReady', generation: container.generation }, container);
  }

  private async resolveImage(work: AgentWork): Promise<boolean> {
    const { pass, seen } = work;
    const { sandboxId: agentId } = pass;
    const agent = seen.state;
    const log = await this.records.openBuildLog(agentId, agent, agent.deployment?.id ?? '');
    try {
      await this.containers.logPrivateVariables(agentId, agent, log);
      const record = await this.imageRecord(work, log);
      // A3
      const now = await this.records.load(agentId);
      // A1. The record of an image need not wait for the log.
      if (record.type === 'RecordDeploymentFailure') await log.flush();
      const [recorded] = await Promise.all([now !== null && work.record(now, record, null), log.flush()]);
      return recorded;
    } catch (error) {
      await log.flush();
      if (pass.signal.aborted || error instanceof RuntimeUnavailable) throw error;
      const now = await this.records.load(agentId);
      // A4. The deadline may have moved since the step was decided on.
      if (now === null || isOverdue(now.state, this.engine.now()) || (await work.isStale())) return false;
      throw error;
    }
  }

  /**
   * Waits for a place and makes the image available. A5: a deployment that has not begun, or waits again, begins when it has the place, and if none is
   * free, its wait has a deadline of its own.
   */
  private async imageRecord({ pass, seen, isStale, recordMeanwhile }: AgentWork, log: BuildLog): Promise<AgentRecord> {
    const agent = seen.state;
    const kind = this.images.workFor(agent);
    const isWaiting = agent.deployment?.isWaiting === true;
    let begins = isWaiting || agent.deployment?.status === 'queued';
    const queued = isWaiting ? null : this.records.queuedNow(agent, this.engine.now());
    const waitEnd = deadlineSignal(queued ?? agent, this.engine.now());
    let waiting = Promise.resolve();
    let started: Extract<AgentRecord, { type: 'RecordDeploymentStarted' }> | null = null;
    const onWait = (wait: Wait) => {
      log.line(waitLine(kind, wait));
      begins = true;
      if (queued !== null) waiting = recordMeanwhile(queued);
      // It is awaited below, and must not count as unhandled before.
      waiting.catch(() => undefined);
    };
    const workEnd = () => {
      if (begins) started = this.records.startedNow(agent, this.engine.now());
      return deadlineSignal(started ?? agent, this.engine.now());
    };
    const run = async (signal: AbortSignal) => {
      const beginning = waiting.then(() => recordMeanwhile(started ?? undefined));
      const [record] = await allSettledPair(this.images.resolve(pass.sandboxId, agent, log, signal), beginning);
      return record;
    };
    const ends = { wait: waitEnd, work: workEnd };
    try {
      return await this.engine.runWithinDeadline(pass, agent, { kind, isStale, run, onWait, ends });
    } finally {
      await waiting;
    }
  }
}
