import { Injectable } from '@nestjs/common';

import type { Agent, AgentRecord } from '../../agents/index.ts';
import { pause } from '../../../kernel/async/pause.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { ReadShare } from '../../../kernel/limits/read-share.ts';
import { FailureReason } from '../../../runtime/build-failure.ts';
import type { ContainerHandle, ContainerView } from '../../../runtime/container.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import { RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import type { Work } from '../../../sandboxes/index.ts';
import { deadlineSignal, EngineView } from '../../../sandboxes/services.ts';
import { AgentRecords } from '../records/agent-records.ts';
import type { BuildLog } from '../records/build-log.ts';
import { failureOf, releaseFailed } from '../records/failures.ts';
import { ContainerContents } from './container-contents.service.ts';

export type AgentWork = Work<Agent, AgentRecord>;

/** The beginning of the line in the build log after which the output of the release command stands. */
const RELEASE_LINE = 'Running the release command: ';
/** The most lines of its output that are copied. */
const RELEASE_LINES_MAX = 10_000;
/** The line in place of output that is not copied. */
const REST_LINE = 'The rest of its output is in the log of the agent only.';
/** The time for copying the rest of the output of a command that has succeeded, in ms: the agent does not run meanwhile. */
const COPY_MS = 5_000;
/** The time until a container is looked at again whose output has ended, in ms. */
const LOOK_AGAIN_MS = 200;
/** The bytes of output of release commands that this process reads in a second, of which one account may have a quarter, and those at a time. */
const READ_BYTES = { perSecond: 4 * 1024 * 1024, atATime: 64 * 1024 };

/** Runs what a deployment runs beside the agent: the release command before it, and the custom scripts in its ready container. */
@Injectable()
export class DeploymentCommands {
  private readonly share = new ReadShare(READ_BYTES);

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly records: AgentRecords,
    private readonly contents: ContainerContents,
    private readonly engine: EngineView,
  ) {}

  /** Runs the scripts of a deployment whose container is ready, and records the outcome. Returns false if the deployment became stale. */
  async runScripts(work: AgentWork, { generation, handle }: ContainerView): Promise<boolean> {
    const { pass, seen } = work;
    const { sandboxId: agentId } = pass;
    const ready = { type: 'RecordReady', generation } as const;
    const deploymentId = seen.state.deployment?.id ?? '';
    const scripts = await this.contents.scriptsOf(agentId);
    if (scripts.length === 0) return work.record(seen, ready, null);
    if (!(await work.record(seen, { type: 'RecordScriptsBegun', deploymentId, generation }, null))) return false;
    // Another pass must not take the container for one of its own, in which no script has run.
    pass.started = null;
    const outcome = await this.runWithinTime(work, (log, signal) => this.contents.runScripts(pass, handle, scripts, log, signal));
    if (outcome === 'stale') return false;
    const failure = outcome === 'late' ? 'The custom scripts took longer than a deployment may.' : outcome;
    const now = await this.records.load(agentId);
    if (now === null || (await work.isStale())) return false;
    return work.record(now, failure === null ? ready : failureOf(deploymentId, failure), null);
  }

  /** Copies the output of the release command to the build log until it ends. Returns false, so that its container is looked at again. */
  async followRelease(work: AgentWork, { handle }: ContainerView): Promise<false> {
    await this.runWithinTime(work, async (log, signal) => {
      await this.copyOutput(work.seen.state, handle, log, signal);
      // The engine tells of the end a little later than the output ends.
      await pause(LOOK_AGAIN_MS, signal);
    });
    return false;
  }

  /** Records the outcome of the release command, which has ended. */
  async endRelease(work: AgentWork, container: ContainerView): Promise<boolean> {
    const { state } = work.seen;
    const deploymentId = state.deployment?.id ?? '';
    const hasSucceeded = container.exitCode === 0;
    let record: AgentRecord = { type: 'RecordReleaseSucceeded', deploymentId, generation: container.generation };
    const outcome = await this.runWithinTime(work, async (log, signal) => {
      if (hasSucceeded) await this.copyRest(state, container.handle, log, signal);
      else record = releaseFailed(deploymentId, container, log.redacted(await this.copyOutput(state, container.handle, log, signal)));
      signal.throwIfAborted();
      return null;
    });
    // A command that has succeeded in time is not late because of its output.
    if (outcome === 'stale' || (outcome === 'late' && !hasSucceeded)) return false;
    const now = await this.records.load(work.pass.sandboxId);
    if (now === null || (await work.isStale())) return false;
    return work.record(now, record, null);
  }

  /** Runs work that ends with the deployment's time. Returns what it returns, or why it was ended. */
  private async runWithinTime<T>(
    { pass, seen, isStale }: AgentWork,
    run: (log: BuildLog, signal: AbortSignal) => Promise<T>,
  ): Promise<T | 'stale' | 'late'> {
    const agent = seen.state;
    const log = await this.records.openBuildLog(pass.sandboxId, agent, agent.deployment?.id ?? '');
    const late = deadlineSignal(agent, this.engine.now());
    try {
      return await pass.withoutSlot(() =>
        this.engine.runUntilStale(pass, false, isStale, (stale) => run(log, AbortSignal.any([stale, late]))),
      );
    } catch (error) {
      if (pass.signal.aborted || error instanceof RuntimeUnavailable) throw error;
      if (await isStale()) return 'stale';
      if (!late.aborted) throw error;
      return 'late';
    } finally {
      await log.flush();
    }
  }

  /** Copies what is left of the output of a release command that has succeeded, as far as a short time allows. */
  private async copyRest(agent: Agent, handle: ContainerHandle, log: BuildLog, signal: AbortSignal): Promise<void> {
    const over = timeoutSignal(COPY_MS);
    const end = AbortSignal.any([signal, over]);
    await this.copyOutput(agent, handle, log, end, RELEASE_LINES_MAX).catch((error: unknown) => {
      if (!end.aborted) throw error;
    });
    if (over.aborted) log.line(REST_LINE);
  }

  /**
   * Copies the output of the release command to the build log, after what an earlier call has copied, until the container or the signal ends it. Reads so
   * many lines at most. Returns why the command failed, if it did, as far as its output says so.
   */
  private async copyOutput(
    { accountId, deployment }: Agent,
    handle: ContainerHandle,
    log: BuildLog,
    signal: AbortSignal,
    linesMax = Infinity,
  ): Promise<string> {
    const first = RELEASE_LINE + JSON.stringify(deployment?.releaseCommand?.command ?? []);
    const copied = await this.records.linesAfter(deployment?.id ?? '', log.shown(first));
    if (copied === null) log.line(first);
    const pace = this.share.reader(accountId, signal);
    const reason = new FailureReason();
    let count = 0;
    for await (const { text } of this.runtime.logs(handle, null, signal, { pace, reserve: () => null })) {
      reason.push(text);
      count += 1;
      if (count > (copied ?? 0) && count <= RELEASE_LINES_MAX) log.line(count < RELEASE_LINES_MAX ? text : REST_LINE);
      if (count >= linesMax || signal.aborted) break;
      await pace(text.length);
    }
    return reason.text;
  }
}
