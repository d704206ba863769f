import type { Agent, AgentRecord, Release } from '../../agents/index.ts';
import type { ContainerHandle, ContainerView } from '../../platform/runtime/runtime.ts';

/** The actual state, read in one look after the agent's state was read. */
export interface Actual {
  containers: readonly ContainerView[];
  volume: boolean;
  /** True if work is in flight for the agent. */
  held: boolean;
  lastActiveAt: Date | null;
  /** The container that was started in this pass; if it exits after that, it has crashed. */
  started: ContainerHandle | null;
}

export interface Rules {
  /** True if the engine can keep a container's memory during a sleep. */
  canFreeze: boolean;
  deepSleepAfterSeconds: number;
  /** The time within which a container must be ready, of a release without a time of its own. */
  startTimeoutSeconds: number;
}

export type Step =
  | { do: 'rest' }
  | { do: 'record'; record: AgentRecord }
  /** With `meanwhile`, records that while the step runs. */
  | { do: 'resolve_image'; meanwhile?: AgentRecord }
  | { do: 'make_volume' }
  | { do: 'create'; release: Release }
  /** Stops an older container while the new one is created. */
  | { do: 'replace'; container: ContainerView; release: Release }
  /** With `meanwhile`, records that while the container starts. */
  | { do: 'start'; container: ContainerView; meanwhile?: AgentRecord }
  | { do: 'stop' | 'freeze' | 'thaw' | 'kill'; container: ContainerView }
  /** `gently` asks the program in the container to end first. */
  | { do: 'remove'; container: ContainerView; gently: boolean }
  | { do: 'remove_volume' }
  /** Records RecordReady if the container is ready within the time, else the record `otherwise`; null means another look later. */
  | { do: 'await_ready'; container: ContainerView; withinMs: number; otherwise: AgentRecord | null }
  | { do: 'fail_exited'; container: ContainerView }
  /** A transition that the rules require without a request. */
  | { do: 'order'; order: 'sleep' | 'sleep_deeper' | 'wake' | 'restart' }
  | { do: 'erase' };

const rest: Step = { do: 'rest' };
/** The duration of the last look at a container whose time is over, in milliseconds. One that is ready by then has succeeded. */
const LAST_LOOK_MS = 1_000;
/** The time until the next look, in milliseconds, at an agent that is in use although its idle time is over. */
const IN_USE_AGAIN_MS = 30_000;

/** Returns the next step that brings the agent's container to the desired state in its stream. The switch is a table by status. */
export function nextStep(agent: Agent, actual: Actual, rules: Rules, now: Date): Step {
  switch (agent.status) {
    case 'deleting':
    case 'deleted':
      return tearDown(agent, actual);
    case 'deploying':
      return deploy(agent, actual, rules, now);
    case 'starting':
    case 'restarting':
    case 'waking':
      return bringUp(agent, actual, rules, now);
    case 'stopping':
      return agent.wantedSleep === null ? bringDown(agent, actual, now) : putToSleep(agent, actual, rules, now);
    case 'sleeping':
      return keepAsleep(agent, actual, rules, now);
    case 'active':
      return keepUp(agent, actual, rules, now);
    case 'stopped':
      return removeStale(agent, actual) ?? stopRunning(agent, actual) ?? rest;
    case 'error':
      return recover(agent, actual);
    case 'created':
      return removeStale(agent, actual) ?? rest;
  }
}

/** Returns the earliest of the agent's own deadlines, at which to look again without an event; null if it has none. */
export function nextCheckAt(agent: Agent, actual: Actual, rules: Rules, now: Date): Date | null {
  const times: number[] = [];
  if (agent.deadlineAt !== null) times.push(Date.parse(agent.deadlineAt));
  if (agent.restartAt !== null) times.push(Date.parse(agent.restartAt));
  const idleAt = idleSince(agent, actual);
  // Work in flight counts as use when it ends; until then the agent is polled.
  if (idleAt !== null) times.push(actual.held ? Math.max(idleAt, now.getTime() + IN_USE_AGAIN_MS) : idleAt);
  const deepAt = deepSleepAt(agent, rules);
  if (deepAt !== null) times.push(deepAt);
  return times.length === 0 ? null : new Date(Math.min(...times));
}

/** Returns what a look after the step would show; null if only a look can tell. `made` is the container that the step created. */
export function actualAfter(step: Step, actual: Actual, made: ContainerView | null): Actual | null {
  // A container that was removed while the image was resolved is missed by the step that needs it, which then leads to a look.
  if (step.do === 'record' || step.do === 'resolve_image') return actual;
  if (made === null) return null;
  const stopped = step.do === 'replace' ? step.container : null;
  const others = actual.containers.map((each) => (each === stopped ? { ...each, state: 'exited' as const } : each));
  return { ...actual, volume: true, containers: [...others, made] };
}

/** Returns true if the container has a process, which may be frozen. */
export function isUp({ state }: ContainerView): boolean {
  return state === 'running' || state === 'frozen';
}

function isMine(agent: Agent, { generation, outdated }: ContainerView): boolean {
  return generation === agent.generation && outdated === undefined;
}

function mineOf(agent: Agent, actual: Actual): ContainerView | undefined {
  return actual.containers.find((container) => isMine(agent, container));
}

function removeStale(agent: Agent, actual: Actual): Step | null {
  const stale = actual.containers.find((container) => !isMine(agent, container));
  return stale === undefined ? null : { do: 'remove', container: stale, gently: true };
}

function stopRunning(agent: Agent, actual: Actual): Step | null {
  const mine = mineOf(agent, actual);
  return mine !== undefined && isUp(mine) ? { do: 'stop', container: mine } : null;
}

function overdue(agent: Agent, now: Date): boolean {
  return agent.deadlineAt !== null && now.getTime() >= Date.parse(agent.deadlineAt);
}

function tearDown(agent: Agent, actual: Actual): Step {
  const [container] = actual.containers;
  if (container !== undefined) return { do: 'remove', container, gently: false };
  if (actual.volume) return { do: 'remove_volume' };
  return agent.status === 'deleting' ? { do: 'erase' } : rest;
}

function deploy(agent: Agent, actual: Actual, rules: Rules, now: Date): Step {
  const { deployment, candidate } = agent;
  if (deployment === null) return rest;
  const deploymentId = deployment.id;
  const mine = mineOf(agent, actual);
  const tooLate: AgentRecord = {
    type: 'RecordDeploymentFailure',
    deploymentId,
    kind: 'timeout',
    reason: 'It took longer than a deployment may.',
  };
  if (overdue(agent, now) && mine?.state !== 'running') return { do: 'record', record: tooLate };
  const begun: AgentRecord = { type: 'RecordDeploymentStarted', deploymentId };
  if (candidate === null) return deployment.status === 'queued' ? { do: 'resolve_image', meanwhile: begun } : { do: 'resolve_image' };
  // An older container is removed when the agent is active, so that nobody waits for that.
  const stale = actual.containers.find((container) => !isMine(agent, container) && isUp(container));
  if (stale !== undefined)
    return mine === undefined ? { do: 'replace', container: stale, release: candidate } : { do: 'stop', container: stale };
  const missing = make(actual, mine, candidate);
  if (missing !== null || mine === undefined) return missing ?? rest;
  const created: AgentRecord = { type: 'RecordContainerCreated', deploymentId, generation: agent.generation };
  if (deployment.status === 'building')
    return mine.state === 'created' ? { do: 'start', container: mine, meanwhile: created } : { do: 'record', record: created };
  switch (mine.state) {
    case 'created':
      return { do: 'start', container: mine };
    case 'frozen':
      return { do: 'thaw', container: mine };
    case 'exited':
      if (mine.notBegun && actual.started !== mine.handle) return { do: 'start', container: mine };
      return { do: 'fail_exited', container: mine };
    case 'running': {
      // A service that ended in the middle of the scripts may have left one that still runs. They begin anew in a new container.
      if (deployment.scriptsBegun && actual.started !== mine.handle) return { do: 'remove', container: mine, gently: true };
      const startedAt = mine.startedAt === null ? now.getTime() : Date.parse(mine.startedAt);
      const seconds = candidate.startTimeoutSeconds ?? rules.startTimeoutSeconds;
      const readyBy = Math.min(startedAt + seconds * 1000, Date.parse(agent.deadlineAt ?? now.toISOString()));
      const reason = `It was not ready within ${seconds} s of its start.`;
      const otherwise: AgentRecord = { type: 'RecordDeploymentFailure', deploymentId, kind: 'timeout', reason };
      return { do: 'await_ready', container: mine, withinMs: Math.max(LAST_LOOK_MS, readyBy - now.getTime()), otherwise };
    }
  }
}

/**
 * Returns the step that creates what is missing, or null. A container is created together with its volume; a volume that was lost is
 * created alone.
 */
function make(actual: Actual, mine: ContainerView | undefined, release: Release): Step | null {
  if (mine === undefined) return { do: 'create', release };
  return actual.volume ? null : { do: 'make_volume' };
}

function bringUp(agent: Agent, actual: Actual, rules: Rules, now: Date): Step {
  const mine = mineOf(agent, actual);
  const tooLate: AgentRecord = { type: 'RecordFailure', kind: 'timeout', reason: 'It was not ready in time.' };
  if (overdue(agent, now) && mine?.state !== 'running') return { do: 'record', record: tooLate };
  if (agent.release === null)
    return { do: 'record', record: { type: 'RecordFailure', kind: 'deployment', reason: 'It was never deployed.' } };
  if (agent.restartAt !== null && now.getTime() < Date.parse(agent.restartAt)) return removeStale(agent, actual) ?? rest;
  const missing = removeStale(agent, actual) ?? make(actual, mine, agent.release);
  if (missing !== null || mine === undefined) return missing ?? rest;
  switch (mine.state) {
    case 'created':
      return { do: 'start', container: mine };
    case 'frozen':
      return { do: 'thaw', container: mine };
    case 'exited':
      // A wake starts the container that a deep sleep stopped. A container that was created for a start or a restart must not exit.
      if (agent.status === 'waking' && actual.started !== mine.handle) return { do: 'start', container: mine };
      return { do: 'record', record: exitRecord(mine, agent.generation, rules) };
    case 'running': {
      const withinMs = Math.max(LAST_LOOK_MS, Date.parse(agent.deadlineAt ?? now.toISOString()) - now.getTime());
      return { do: 'await_ready', container: mine, withinMs, otherwise: tooLate };
    }
  }
}

function exitRecord(container: ContainerView | undefined, generation: number, { startTimeoutSeconds }: Rules): AgentRecord {
  const cause = container?.state === 'exited' ? 'exited' : 'removed';
  const { exitCode = null, oomKilled: oom = false } = container ?? {};
  return { type: 'RecordExit', generation, exitCode, oom, cause, startTimeoutSeconds };
}

function bringDown(agent: Agent, actual: Actual, now: Date): Step {
  const running = actual.containers.find(isUp);
  if (running === undefined) return { do: 'record', record: { type: 'RecordStopped' } };
  return overdue(agent, now) ? { do: 'kill', container: running } : { do: 'stop', container: running };
}

function putToSleep(agent: Agent, actual: Actual, rules: Rules, now: Date): Step {
  const stale = removeStale(agent, actual);
  if (stale !== null) return stale;
  // The sleep waits for work in flight. If the work does not end in time, the agent stays awake.
  if (actual.held) return overdue(agent, now) ? { do: 'order', order: 'wake' } : rest;
  const mine = mineOf(agent, actual);
  if (mine === undefined || mine.state === 'created' || mine.state === 'exited')
    return { do: 'record', record: { type: 'RecordSlept', depth: 'stopped' } };
  // A container that could not be frozen in time is stopped instead, which is no failure: the engine may have been away, and the agent is
  // well.
  if (agent.wantedSleep === 'stopped' || !rules.canFreeze || overdue(agent, now)) return { do: 'stop', container: mine };
  return mine.state === 'frozen' ? { do: 'record', record: { type: 'RecordSlept', depth: 'frozen' } } : { do: 'freeze', container: mine };
}

function keepAsleep(agent: Agent, actual: Actual, rules: Rules, now: Date): Step {
  const stale = removeStale(agent, actual);
  if (stale !== null) return stale;
  const mine = mineOf(agent, actual);
  const up = mine !== undefined && isUp(mine) ? mine : null;
  if (agent.sleepDepth === 'stopped') return up === null ? rest : { do: 'stop', container: up };
  if (up === null) return { do: 'record', record: { type: 'RecordSlept', depth: 'stopped' } };
  if (agent.wantedSleep === 'stopped') return { do: 'stop', container: up };
  if (up.state === 'running') return { do: rules.canFreeze ? 'freeze' : 'stop', container: up };
  const deepAt = deepSleepAt(agent, rules);
  return deepAt !== null && now.getTime() >= deepAt ? { do: 'order', order: 'sleep_deeper' } : rest;
}

function keepUp(agent: Agent, actual: Actual, rules: Rules, now: Date): Step {
  const mine = mineOf(agent, actual);
  // The container did not crash: an earlier release made it.
  if (mine === undefined && actual.containers.some(({ outdated }) => outdated)) return { do: 'order', order: 'restart' };
  if (mine === undefined || mine.state === 'exited' || mine.state === 'created')
    return { do: 'record', record: exitRecord(mine, agent.generation, rules) };
  if (mine.state === 'frozen') return { do: 'thaw', container: mine };
  const stale = removeStale(agent, actual);
  if (stale !== null) return stale;
  const idleAt = idleSince(agent, actual);
  return idleAt !== null && now.getTime() >= idleAt && !actual.held ? { do: 'order', order: 'sleep' } : rest;
}

function recover(agent: Agent, actual: Actual): Step {
  const mine = mineOf(agent, actual);
  const stale = removeStale(agent, actual);
  if (stale !== null) return stale;
  if (agent.failure === 'deployment') return mine === undefined ? rest : { do: 'remove', container: mine, gently: true };
  if (agent.failure === 'volume') return stopRunning(agent, actual) ?? rest;
  if (agent.failure === 'crash') return rest;
  if (mine?.state === 'running') return { do: 'await_ready', container: mine, withinMs: LAST_LOOK_MS, otherwise: null };
  return agent.failure === 'runtime' && agent.release !== null ? { do: 'order', order: 'restart' } : rest;
}

/** Returns the time at which an unused agent is put to sleep, in milliseconds since the epoch; null if it never is. */
function idleSince(agent: Agent, actual: Actual): number | null {
  const { serverless, idle_ttl_seconds: ttl } = agent.settings;
  if (agent.status !== 'active' || !serverless || ttl === 0) return null;
  const used = Math.max(Date.parse(agent.activeSince ?? ''), actual.lastActiveAt?.getTime() ?? 0);
  return used + ttl * 1000;
}

function deepSleepAt(agent: Agent, rules: Rules): number | null {
  const frozen = agent.status === 'sleeping' && agent.sleepDepth === 'frozen' && agent.wantedSleep === 'frozen';
  return frozen && agent.sleptAt !== null ? Date.parse(agent.sleptAt) + rules.deepSleepAfterSeconds * 1000 : null;
}
