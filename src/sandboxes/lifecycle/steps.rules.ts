import type { ContainerHandle, ContainerView } from '../../runtime/container.ts';
import type { LifecycleRecord, Sandbox } from './sandbox.rules.ts';

/** The actual state, observed after the sandbox's recorded state was read. */
export interface ActualState {
  containers: readonly ContainerView[];
  volume: boolean;
  /** The value is true if work is in flight for the sandbox. */
  held: boolean;
  /** The replica that ended while it had work in flight for the sandbox; null if none did recently, or the kind does not use it. */
  abandonedBy: string | null;
  lastActiveAt: Date | null;
  /** The container that this pass itself has started; if it exits after that, it has crashed. */
  started: ContainerHandle | null;
}

export interface StepRules {
  /** The value is true if the engine can keep a container's memory during a sleep. */
  canFreeze: boolean;
  deepSleepAfterSeconds: number;
  /** The installation's time within which a container must be ready. */
  startTimeoutSeconds: number;
}

/** A transition that the rules require without a request. */
export type Order = 'sleep' | 'sleep_deeper' | 'wake' | 'restart';

/** A step. `R` are the records of the sandbox's kind, and `Own` the steps that only this kind has. */
export type Step<R = LifecycleRecord, Own = never> =
  | { do: 'rest' }
  | { do: 'record'; record: R }
  | { do: 'make_volume' }
  | { do: 'create' }
  /** Stops an older container while the new one is created. */
  | { do: 'replace'; container: ContainerView }
  /** Starts the container, and appends the record `meanwhile`, if there is one, at the same time. */
  | { do: 'start'; container: ContainerView; meanwhile?: R }
  | { do: 'stop'; container: ContainerView }
  | { do: 'freeze'; container: ContainerView }
  | { do: 'thaw'; container: ContainerView }
  | { do: 'kill'; container: ContainerView }
  /** With `gently`, the program in the container is asked to end first. */
  | { do: 'remove'; container: ContainerView; gently: boolean }
  | { do: 'remove_volume' }
  /**
   * Appends RecordReady if the container is ready within the time, or else the record `otherwise`; null means that it is checked again
   * later.
   */
  | { do: 'await_ready'; container: ContainerView; withinMs: number; otherwise: R | null }
  | { do: 'order'; order: Order }
  | { do: 'erase' }
  /** Such a step changes no container. */
  | { do: 'own'; own: Own };

export const rest: Step = { do: 'rest' };
/** The duration of the last check of a container whose time is over, in ms. If it is ready by then, it has succeeded. */
export const LAST_OBSERVATION_MS = 1_000;
/** The time until the next check, in ms, of a sandbox that is in use although its idle time is over. */
const IN_USE_AGAIN_MS = 30_000;
/** The time until the next look, in milliseconds, at a sandbox that was asked to sleep and is in use. Another replica may let go of it any moment. */
const IN_USE_BEFORE_SLEEP_MS = 1_000;

/**
 * Returns the earliest of the sandbox's own deadlines, at which it is checked again without an event; null if it has none. For
 * `idleSeconds` see `keepUp`.
 */
export function nextCheckAt(sandbox: Sandbox, actual: ActualState, idleSeconds: number | null, rules: StepRules, now: Date): Date | null {
  const times: number[] = [];
  if (sandbox.deadlineAt !== null) times.push(Date.parse(sandbox.deadlineAt));
  if (sandbox.restartAt !== null) times.push(Date.parse(sandbox.restartAt));
  const idleAt = idleSince(sandbox, actual, idleSeconds);
  // Work in flight counts as use when it ends; until then the sandbox is polled.
  if (idleAt !== null) times.push(actual.held ? Math.max(idleAt, now.getTime() + IN_USE_AGAIN_MS) : idleAt);
  if (actual.held && isGoingToSleep(sandbox)) times.push(now.getTime() + IN_USE_BEFORE_SLEEP_MS);
  const deepAt = deepSleepAt(sandbox, rules);
  if (deepAt !== null) times.push(deepAt);
  return times.length === 0 ? null : new Date(Math.min(...times));
}

/** Returns the actual state after the step; null if it has to be observed. `made` is the container that the step created. */
export function actualAfter(step: Step<unknown, unknown>, actual: ActualState, made: ContainerView | null): ActualState | null {
  if (step.do === 'record' || step.do === 'own') return actual;
  if (made === null) return null;
  const stopped = step.do === 'replace' ? step.container : null;
  const others = actual.containers.map((each) => (each === stopped ? { ...each, state: 'exited' as const } : each));
  return { ...actual, volume: true, containers: [...others, made] };
}

/** Returns whether the container has a process, which may be frozen. */
export function isUp({ state }: ContainerView): boolean {
  return state === 'running' || state === 'frozen';
}

export function isMine(sandbox: Sandbox, { generation, outdated }: ContainerView): boolean {
  return generation === sandbox.generation && outdated === undefined;
}

export function mineOf(sandbox: Sandbox, actual: ActualState): ContainerView | undefined {
  return actual.containers.find((container) => isMine(sandbox, container));
}

export function removeStale(sandbox: Sandbox, actual: ActualState): Step | null {
  const stale = actual.containers.find((container) => !isMine(sandbox, container));
  return stale === undefined ? null : { do: 'remove', container: stale, gently: true };
}

export function stopRunning(sandbox: Sandbox, actual: ActualState): Step | null {
  const mine = mineOf(sandbox, actual);
  return mine !== undefined && isUp(mine) ? { do: 'stop', container: mine } : null;
}

export function isOverdue(sandbox: Sandbox, now: Date): boolean {
  return sandbox.deadlineAt !== null && now.getTime() >= Date.parse(sandbox.deadlineAt);
}

/** Returns the step that removes the remains of a deleted sandbox, or null. */
export function tearDown(actual: ActualState): Step | null {
  const [container] = actual.containers;
  if (container !== undefined) return { do: 'remove', container, gently: false };
  return actual.volume ? { do: 'remove_volume' } : null;
}

/**
 * Returns the step that creates what is missing, or null. A container is created together with its volume; a volume that was lost is
 * created alone.
 */
export function createContainer(actual: ActualState, mine: ContainerView | undefined): Step | null {
  if (mine === undefined) return { do: 'create' };
  return actual.volume ? null : { do: 'make_volume' };
}

/**
 * Returns the step that brings a sandbox up. With `startsExited`, a container that has ended is the one that a deep sleep stopped, and it
 * is started again. Otherwise it was created for this transition, and must not have ended after its program began.
 */
export function bringUp(sandbox: Sandbox, actual: ActualState, startsExited: boolean, rules: StepRules, now: Date): Step {
  const mine = mineOf(sandbox, actual);
  const tooLate: LifecycleRecord = { type: 'RecordFailure', kind: 'timeout', reason: 'It was not ready in time.' };
  if (isOverdue(sandbox, now) && mine?.state !== 'running') return { do: 'record', record: tooLate };
  if (sandbox.restartAt !== null && now.getTime() < Date.parse(sandbox.restartAt)) return removeStale(sandbox, actual) ?? rest;
  const missing = removeStale(sandbox, actual) ?? createContainer(actual, mine);
  if (missing !== null || mine === undefined) return missing ?? rest;
  switch (mine.state) {
    case 'created':
      return { do: 'start', container: mine };
    case 'frozen':
      return { do: 'thaw', container: mine };
    case 'exited':
      if ((startsExited || mine.notBegun) && actual.started !== mine.handle) return { do: 'start', container: mine };
      return { do: 'record', record: exitRecord(mine, sandbox.generation, rules) };
    case 'running': {
      const withinMs = Math.max(LAST_OBSERVATION_MS, Date.parse(sandbox.deadlineAt ?? now.toISOString()) - now.getTime());
      return { do: 'await_ready', container: mine, withinMs, otherwise: tooLate };
    }
  }
}

function exitRecord(container: ContainerView | undefined, generation: number, { startTimeoutSeconds }: StepRules): LifecycleRecord {
  const cause = container?.state === 'exited' ? 'exited' : 'removed';
  const { exitCode = null, oomKilled: oom = false } = container ?? {};
  return { type: 'RecordExit', generation, exitCode, oom, cause, startTimeoutSeconds };
}

export function bringDown(sandbox: Sandbox, actual: ActualState, now: Date): Step {
  const running = actual.containers.find(isUp);
  if (running === undefined) return { do: 'record', record: { type: 'RecordStopped' } };
  return isOverdue(sandbox, now) ? { do: 'kill', container: running } : { do: 'stop', container: running };
}

/** Returns whether the sandbox is awake and its sleep was requested. */
export function isGoingToSleep({ wantedSleep, sleepDepth }: Sandbox): boolean {
  return wantedSleep !== null && sleepDepth === null;
}

export function putToSleep(sandbox: Sandbox, actual: ActualState, rules: StepRules, now: Date): Step {
  const stale = removeStale(sandbox, actual);
  if (stale !== null) return stale;
  // The sleep waits for work in flight. If the work does not end in time, the sandbox stays awake.
  if (actual.held) return isOverdue(sandbox, now) ? { do: 'order', order: 'wake' } : rest;
  const mine = mineOf(sandbox, actual);
  if (mine === undefined || mine.state === 'created' || mine.state === 'exited')
    return { do: 'record', record: { type: 'RecordSlept', depth: 'stopped' } };
  // A container that could not be frozen in time is stopped instead, which is no failure: the engine may have been unavailable, and the
  // sandbox is fine.
  if (sandbox.wantedSleep === 'stopped' || !rules.canFreeze || isOverdue(sandbox, now)) return { do: 'stop', container: mine };
  return mine.state === 'frozen' ? { do: 'record', record: { type: 'RecordSlept', depth: 'frozen' } } : { do: 'freeze', container: mine };
}

export function keepAsleep(sandbox: Sandbox, actual: ActualState, rules: StepRules, now: Date): Step {
  const stale = removeStale(sandbox, actual);
  if (stale !== null) return stale;
  const mine = mineOf(sandbox, actual);
  const up = mine !== undefined && isUp(mine) ? mine : null;
  if (sandbox.sleepDepth === 'stopped') return up === null ? rest : { do: 'stop', container: up };
  if (up === null) return { do: 'record', record: { type: 'RecordSlept', depth: 'stopped' } };
  if (sandbox.wantedSleep === 'stopped') return { do: 'stop', container: up };
  if (up.state === 'running') return { do: rules.canFreeze ? 'freeze' : 'stop', container: up };
  const deepAt = deepSleepAt(sandbox, rules);
  return deepAt !== null && now.getTime() >= deepAt ? { do: 'order', order: 'sleep_deeper' } : rest;
}

/**
 * Returns the step that keeps a sandbox up until it was unused for `idleSeconds`; null means that it is never put to sleep because of that.
 */
export function keepUp(sandbox: Sandbox, actual: ActualState, idleSeconds: number | null, rules: StepRules, now: Date): Step {
  const mine = mineOf(sandbox, actual);
  // The container did not crash: it was created by an earlier release.
  if (mine === undefined && actual.containers.some(({ outdated }) => outdated)) return { do: 'order', order: 'restart' };
  if (mine === undefined || mine.state === 'exited' || mine.state === 'created')
    return { do: 'record', record: exitRecord(mine, sandbox.generation, rules) };
  if (mine.state === 'frozen') return { do: 'thaw', container: mine };
  const stale = removeStale(sandbox, actual);
  if (stale !== null) return stale;
  const idleAt = idleSince(sandbox, actual, idleSeconds);
  return idleAt !== null && now.getTime() >= idleAt && !actual.held ? { do: 'order', order: 'sleep' } : rest;
}

/** Returns the time at which an unused sandbox is put to sleep, in ms since the epoch; null if it never is, or is not up. */
function idleSince({ activeSince }: Sandbox, { lastActiveAt }: ActualState, idleSeconds: number | null): number | null {
  if (activeSince === null || idleSeconds === null) return null;
  return Math.max(Date.parse(activeSince), lastActiveAt?.getTime() ?? 0) + idleSeconds * 1000;
}

function deepSleepAt({ sleepDepth, wantedSleep, sleptAt }: Sandbox, rules: StepRules): number | null {
  const isFrozen = sleepDepth === 'frozen' && wantedSleep === 'frozen';
  return isFrozen && sleptAt !== null ? Date.parse(sleptAt) + rules.deepSleepAfterSeconds * 1000 : null;
}
