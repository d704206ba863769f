import { Injectable, Logger, type BeforeApplicationShutdown, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';

import { bothOf } from '../platform/async/both-of.ts';
import { pause } from '../platform/async/pause.ts';
import { agentEvents, deploymentStep, isInTransit, type Agent, type AgentRecord, type AgentSettings } from '../agents/index.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import {
  ContainerGone,
  EngineUnsupported,
  ImageGone,
  RuntimeRefused,
  RuntimeUnavailable,
  type ContainerView,
} from '../platform/runtime/runtime.ts';
import { kindOf, type Pass } from '../sandboxes/index.ts';
import { deadlineSignal, EngineView } from '../sandboxes/services.ts';
import { actualAfter, type Actual, type Rules } from '../sandboxes/lifecycle/steps.decider.ts';
import { sagaStep } from '../platform/sagas/saga-step.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../platform/sagas/saga.ts';
import { AgentRecords, type AgentAtRevision } from './records/agent-records.ts';
import { endedEarly, failureOf } from './records/failures.ts';
import { ContainerSteps } from './containers/container-steps.service.ts';
import { Differences } from './differences/differences.service.ts';
import { nextCheckAt, nextStep, type Step } from './containers/next-step.decider.ts';

/** The largest number of steps in one pass; the next pass continues. */
const STEPS_MAX = 60;
const EVENTS_AGAIN_MS = 1_000;
/** The longest wait for a turn, in milliseconds, after which the agent is not read again. */
const TURN_CAME_AT_ONCE_MS = 50;
/** The shortest time until the next look at an agent, in milliseconds, such as one whose work delays its sleep. */
const HELD_AGAIN_MS = 1_000;

/** The settings that are only displayed. */
const WORDS: ReadonlySet<string> = new Set<keyof AgentSettings>(['name', 'description']);

type Doing = Exclude<Step, { do: 'rest' }>;

/**
 * Brings every agent's container to the desired state in its stream: deploy, start, stop, sleep, wake, delete and crash share one code
 * path.
 */
@Injectable()
export class DeploymentsSaga implements Saga, OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown {
  readonly name = 'deployments';
  /** The filter excludes events that other features write on an agent's stream, because they do not affect its container. */
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: Object.keys(agentEvents) };
  readonly concurrency: number;
  private readonly logger = new Logger('Deployments');
  private readonly stopping = new AbortController();
  private following: Promise<void> = Promise.resolve();

  constructor(
    private readonly sagas: Sagas,
    private readonly records: AgentRecords,
    private readonly steps: ContainerSteps,
    private readonly engine: EngineView,
    private readonly differences: Differences,
  ) {
    this.concurrency = steps.quickCallsMax;
  }

  onModuleInit(): void {
    this.sagas.register(this);
  }

  onApplicationBootstrap(): void {
    this.following = this.followEngine();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.following;
  }

  keyOf(event: StoredEvent): string | null {
    return changesOnlyWords(event) ? null : idOf(event.stream);
  }

  async resync(maxAgeMs: number): Promise<SagaKey[]> {
    return this.differences.find(maxAgeMs);
  }

  async reconcile(agentId: string, { signal, assertLease, withoutSlot, setAccount }: SagaPass): Promise<Date | null> {
    const pass: Pass = {
      sandboxId: agentId,
      signal,
      assertLease,
      withoutSlot,
      started: null,
      made: null,
      refused: false,
      freezeRefused: false,
    };
    const first = await this.records.load(agentId);
    if (first === null) return this.unknown(pass);
    setAccount(first.agent.accountId);
    try {
      return await this.walk(pass, first);
    } catch (error) {
      if (signal.aborted) throw error;
      if (error instanceof RuntimeRefused || error instanceof RuntimeUnavailable) return this.settleFailure(pass, error);
      throw error;
    }
  }

  private async walk(pass: Pass, first: AgentAtRevision): Promise<Date | null> {
    let kept: Actual | null = null;
    for (let count = 0; count < STEPS_MAX && !pass.signal.aborted; count++) {
      const seen = count === 0 ? first : await this.records.load(pass.sandboxId);
      if (seen === null) return null;
      const { agent } = seen;
      // Nothing that only a new look would show interrupts a deployment, so its last look is reused where the outcome of the step is known.
      const actual: Actual = (agent.status === 'deploying' ? kept : null) ?? (await this.engine.observe(pass, agent.generation));
      const rules = this.steps.rules(await this.engine.canFreeze(pass));
      const step = nextStep(agent, actual, rules, this.engine.now());
      if (step.do === 'rest') {
        if (agent.status === 'deleted') await this.close(pass, seen);
        return this.next(agent, actual, rules);
      }
      pass.made = null;
      const done = await this.tryTo(pass, seen, step);
      kept = done ? lookAfter(step, actual, pass.made) : null;
      if (done) sagaStep(this.name, pass.sandboxId, step.do === 'record' ? step.record.type : step.do);
      else if (!isInTransit(agent) && step.do !== 'freeze') return this.next(agent, actual, rules);
    }
    return this.engine.now();
  }

  /**
   * Takes a step. Returns false, so that the agent is looked at again, if the container changed meanwhile: it is gone, or the engine
   * refuses for the first time.
   */
  private async tryTo(pass: Pass, seen: AgentAtRevision, step: Doing): Promise<boolean> {
    try {
      return await this.take(pass, seen, step);
    } catch (error) {
      const isRefused = error instanceof RuntimeRefused;
      // The agent then sleeps by being stopped.
      if (isRefused && step.do === 'freeze') pass.freezeRefused = true;
      else if (error instanceof ContainerGone || (isRefused && !pass.refused)) pass.refused ||= isRefused;
      else throw error;
      if (error instanceof ImageGone) await this.pullAgain(pass, seen, error);
      return false;
    }
  }

  /** Pulls the image anew that the engine has lost, such as after its disk was cleared or it was replaced by another one. */
  private async pullAgain(pass: Pass, { agent }: AgentAtRevision, gone: ImageGone): Promise<void> {
    const pull = (signal: AbortSignal) => this.steps.images.pullAgain(gone, agent.accountId, () => undefined, signal);
    try {
      await this.engine.runWithinDeadline(pass, agent, 'pull', this.staleness(pass, agent), pull);
    } catch (error) {
      if (pass.signal.aborted || !(await this.isOver(pass, agent))) throw error;
    }
  }

  /** Returns whether a transition is stale or out of time; the next look tells which. */
  private async isOver(pass: Pass, agent: Agent): Promise<boolean> {
    return (await this.staleness(pass, agent)()) || deadlineSignal(agent, this.engine.now()).aborted;
  }

  /** Takes a step. Returns false if a wait was interrupted or the decision is stale. */
  private async take(pass: Pass, seen: AgentAtRevision, step: Doing): Promise<boolean> {
    const { sandboxId: agentId } = pass;
    const { agent } = seen;
    pass.assertLease();
    switch (step.do) {
      case 'record':
        return this.record(pass, seen, step.record, null);
      case 'order':
        return this.records.requestTransition(agentId, seen, step.order);
      case 'erase':
        return this.records.erase(agentId, seen);
      case 'resolve_image':
        return this.resolveImage(pass, seen, step.meanwhile);
      case 'create':
        return this.runWithinLimit(pass, agent, async () => {
          pass.made = await this.steps.create(pass, agent);
        });
      case 'replace':
        return this.runWithinLimit(pass, agent, async () => {
          pass.made = await this.steps.replace(pass, agent, step.container);
        });
      case 'start': {
        const starting = this.runWithinLimit(pass, agent, async () => {
          pass.started = step.container.handle;
          // The start of a service that was killed may only now have come into effect, without the variables.
          if (!(await this.steps.start(pass, agent, step.container))) pass.started = null;
        });
        const [started] = await bothOf(starting, this.recordMeanwhile(pass, seen, step.meanwhile));
        return started;
      }
      case 'await_ready':
        return this.awaitReady(pass, seen, step);
      case 'fail_exited':
        return this.record(pass, seen, endedEarly(agent, step.container), step.container);
      case 'remove':
        await pass.withoutSlot(() => this.steps.remove(pass, agent, step.container, step.gently));
        return true;
      case 'stop':
        await pass.withoutSlot(() => this.steps.changeState(agent, 'stop', step.container));
        return true;
      case 'make_volume':
      case 'remove_volume':
        await pass.withoutSlot(() => this.steps.changeVolume(agentId, step.do));
        return true;
      default:
        await this.steps.changeState(agent, step.do, step.container);
        return true;
    }
  }

  /** Creates or starts a container as soon as the engine may start one more. Returns false if the agent changed during the wait. */
  private runWithinLimit(pass: Pass, agent: Agent, work: () => Promise<void>): Promise<boolean> {
    const asked = performance.now();
    return pass.withoutSlot(() =>
      this.engine.runWithinLimit(pass, agent.accountId, 'start', pass.signal, async () => {
        const waited = performance.now() - asked > TURN_CAME_AT_ONCE_MS;
        if (waited && (await this.staleness(pass, agent)())) return false;
        pass.assertLease();
        await work();
        return true;
      }),
    );
  }

  /** Records what a step that runs at the same time means. The step needs no revision, so another event in between is no reason to stop. */
  private async recordMeanwhile(pass: Pass, first: AgentAtRevision, record: AgentRecord | undefined): Promise<void> {
    if (record === undefined) return;
    for (let seen: AgentAtRevision | null = first; seen !== null; seen = await this.records.load(pass.sandboxId))
      if (await this.record(pass, seen, record, null)) return sagaStep(this.name, pass.sandboxId, record.type);
  }

  private async resolveImage(pass: Pass, seen: AgentAtRevision, meanwhile: AgentRecord | undefined): Promise<boolean> {
    const { agent } = seen;
    const log = await this.records.openBuildLog(pass.sandboxId, agent, agent.deployment?.id ?? '');
    try {
      await this.steps.logPrivateVariables(pass.sandboxId, agent, log);
      const resolve = (signal: AbortSignal) => this.steps.images.resolve(pass.sandboxId, agent, log, signal);
      const resolving = this.engine.runWithinDeadline(pass, agent, this.steps.images.workFor(agent), this.staleness(pass, agent), resolve);
      const [record] = await bothOf(resolving, this.recordMeanwhile(pass, seen, meanwhile));
      // The work may take long. Other events on the stream meanwhile are no reason to repeat it, so the record follows the current
      // revision.
      const now = await this.records.load(pass.sandboxId);
      // The reason of a failure must be the last line of the log, so the log is written first. The record of an image need not wait for it.
      if (record.type === 'RecordDeploymentFailure') await log.flush();
      const [recorded] = await Promise.all([now !== null && this.record(pass, now, record, null), log.flush()]);
      return recorded;
    } catch (error) {
      await log.flush();
      if (pass.signal.aborted || error instanceof RuntimeUnavailable) throw error;
      if (await this.isOver(pass, agent)) return false;
      throw error;
    }
  }

  private async awaitReady(pass: Pass, seen: AgentAtRevision, step: Extract<Step, { do: 'await_ready' }>): Promise<boolean> {
    const { agent } = seen;
    let cutShort = false;
    const isReady = await pass.withoutSlot(() =>
      this.engine.runUntilStale(pass, true, this.staleness(pass, agent), async (signal) => {
        const answer = await this.steps.awaitReady(agent, step.container, step.withinMs, signal);
        cutShort = signal.aborted;
        return answer;
      }),
    );
    if (isReady && agent.status === 'deploying') return this.runScripts(pass, seen, step.container);
    if (isReady) return this.record(pass, seen, { type: 'RecordReady', generation: step.container.generation }, step.container);
    if (cutShort || step.otherwise === null) return false;
    const why = await pass.withoutSlot(() => this.steps.explainUnready(agent, step.container));
    const { otherwise } = step;
    const failure = why === null || !('reason' in otherwise) ? otherwise : { ...otherwise, reason: `${otherwise.reason} ${why}` };
    return this.record(pass, seen, failure, step.container);
  }

  /** Runs the scripts of a deployment whose container is ready, and records how the deployment ends. Returns false if it became stale. */
  private async runScripts(pass: Pass, seen: AgentAtRevision, { generation, handle }: ContainerView): Promise<boolean> {
    const { agent } = seen;
    const ready = { type: 'RecordReady', generation } as const;
    const deploymentId = agent.deployment?.id ?? '';
    const scripts = await this.steps.contents.scriptsOf(pass.sandboxId);
    if (scripts.length === 0) return this.record(pass, seen, ready, null);
    if (!(await this.records.record(pass.sandboxId, seen, { type: 'RecordScriptsBegun', deploymentId, generation }))) return false;
    // From here on, a pass that finds this container running removes it.
    pass.started = null;
    const log = await this.records.openBuildLog(pass.sandboxId, agent, deploymentId);
    const late = deadlineSignal(agent, this.engine.now());
    let failure: string | null;
    try {
      failure = await pass.withoutSlot(() =>
        this.engine.runUntilStale(pass, false, this.staleness(pass, agent), (stale) =>
          this.steps.contents.runScripts(pass, handle, scripts, log, AbortSignal.any([stale, late])),
        ),
      );
    } catch (error) {
      if (pass.signal.aborted || error instanceof RuntimeUnavailable) throw error;
      if (await this.staleness(pass, agent)()) return false;
      if (!late.aborted) throw error;
      failure = 'The custom scripts took longer than a deployment may.';
    } finally {
      await log.flush();
    }
    const now = await this.records.load(pass.sandboxId);
    if (now === null || (await this.staleness(pass, agent)())) return false;
    const record = failure === null ? ready : failureOf(deploymentId, failure);
    return this.record(pass, now, record, null);
  }

  /** Records an outcome. The log of a failed deployment first gets the reason, and the last output of the container if there was one. */
  private async record(
    { sandboxId: agentId, assertLease, withoutSlot }: Pass,
    seen: AgentAtRevision,
    record: AgentRecord,
    container: ContainerView | null,
  ): Promise<boolean> {
    // A process that was suspended sees every timeout expire, whatever happened meanwhile, so the right to act is checked.
    if (record.type === 'RecordDeploymentFailure' || record.type === 'RecordFailure') assertLease();
    if (record.type === 'RecordDeploymentFailure') {
      const log = await this.records.openBuildLog(agentId, seen.agent, record.deploymentId);
      if (container !== null) await withoutSlot(() => this.steps.copyLastOutput(container, log));
      log.line(`Failed at ${deploymentStep(seen.agent)}: ${record.reason}`);
      await log.flush();
    }
    return this.records.record(agentId, seen, record);
  }

  private async close({ sandboxId: agentId, assertLease }: Pass, seen: AgentAtRevision): Promise<void> {
    assertLease();
    await this.engine.forget(agentId);
    await this.steps.contents.forget(agentId);
    await this.records.close(agentId, seen);
  }

  /** Returns a function that returns true if the agent has changed since the step was decided. */
  private staleness({ sandboxId: agentId }: Pass, agent: Agent): () => Promise<boolean> {
    return async () => {
      const now = (await this.records.load(agentId))?.agent;
      return now?.status !== agent.status || now.generation !== agent.generation || now.deployment?.id !== agent.deployment?.id;
    };
  }

  /** Records a refusal as the failure of the transition. If the engine is unavailable, the transition is retried until its deadline. */
  private async settleFailure(pass: Pass, error: RuntimeRefused | RuntimeUnavailable): Promise<Date | null> {
    const seen = await this.records.load(pass.sandboxId);
    const agent = seen?.agent ?? null;
    const overdue = agent?.deadlineAt != null && this.engine.now().getTime() >= Date.parse(agent.deadlineAt);
    // A deployment that somebody just asked for need not wait for another engine.
    const waits = error instanceof EngineUnsupported ? agent?.status !== 'deploying' : error instanceof RuntimeUnavailable;
    if (seen === null || agent === null || !isInTransit(agent) || (waits && !overdue)) throw error;
    const kind = error instanceof RuntimeRefused ? 'timeout' : 'runtime';
    const deploymentId = agent.deployment?.id ?? '';
    const record: AgentRecord =
      agent.status === 'deploying'
        ? { type: 'RecordDeploymentFailure', deploymentId, kind: 'runtime', reason: error.message }
        : { type: 'RecordFailure', kind, reason: error.message };
    await this.record(pass, seen, record, null);
    return this.engine.now();
  }

  private next(agent: Agent, actual: Actual, rules: Rules): Date | null {
    const waits = agent.status === 'stopping' && agent.wantedSleep !== null;
    const now = this.engine.now();
    const at = waits ? now : nextCheckAt(agent, actual, rules, now);
    const soon = now.getTime() + HELD_AGAIN_MS;
    return at !== null && at.getTime() < soon ? new Date(soon) : at;
  }

  /**
   * Leaves alone an agent that the log does not know, and logs its containers or volume. It may belong to another database, or to the time
   * after the backup that was restored.
   */
  private async unknown(pass: Pass): Promise<null> {
    const { sandboxId: agentId } = pass;
    const { containers, volume } = await this.engine.observe(pass, null);
    if (containers.length > 0 || volume)
      this.logger.warn(`the engine has containers or a volume of agent ${agentId}, which the log does not know; they are left alone`);
    this.differences.ignore(agentId);
    return null;
  }

  /** Wakes the saga for each event of the engine. The pass finds out by looking what the event means. */
  private async followEngine(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        for await (const event of this.engine.events(signal)) {
          if (event.kind === 'changed') {
            if (kindOf(event.agentId) === 'agent') this.wake(event.agentId);
          }
          // Events were lost, so the list must be a new one.
          else for (const { key, account } of await this.differences.find(0)) this.wake(key, account);
        }
      } catch (error) {
        if (!signal.aborted) this.logger.warn(`engine events: ${String(error)}`);
      }
      if (!signal.aborted) await pause(EVENTS_AGAIN_MS, signal);
    }
  }

  private wake(agentId: string, account: string | null = null): void {
    this.engine.interruptWait(agentId);
    this.sagas.wake(this.name, agentId, account ?? undefined);
  }
}

/** Returns true if the event changes only the name or the description, which do not affect the container. */
function changesOnlyWords({ type, data }: StoredEvent): boolean {
  if (type !== 'AgentConfigured') return false;
  return Object.keys(data.changes as Partial<AgentSettings>).every((setting) => WORDS.has(setting));
}

/** Returns what a look after the step would show; null if only a look can tell. */
function lookAfter(step: Doing, actual: Actual, made: ContainerView | null): Actual | null {
  // A container that was removed while the image was resolved is missed by the step that needs it, which then leads to a look.
  return step.do === 'resolve_image' || step.do === 'fail_exited' ? actual : actualAfter(step, actual, made);
}
