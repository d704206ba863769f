import type { Agent, AgentCommand, AgentStatus, Release } from '../agents/index.ts';
import type { ContainerView } from '../platform/runtime/runtime.ts';

/** What is there, as one look found it. */
export interface Actual {
  containers: ContainerView[];
  volume: boolean;
  /** Whether work is in flight. Read after the agent's state: a request commits its hold before it reads that state. */
  held: boolean;
  lastActiveAt: Date | null;
  /** Whether this pass has started the wanted container already: if it ended since, it ended by itself. */
  startedNow: boolean;
}

/** What holds for this agent at this moment. */
export interface Terms {
  now: Date;
  canFreeze: boolean;
  deepSleepAfterSeconds: number;
  startTimeoutSeconds: number;
  /** What has to succeed for the agent to be ready, in words: "GET /healthz on port 8080". */
  readiness: string;
  /** Until when (ISO 8601) a transition that begins now has to be over. */
  deadlines: Record<'restart' | 'sleep' | 'wake', (now: Date) => string>;
}

export type Step =
  /** Nothing to do until a signal comes, or that time. */
  | { kind: 'rest'; until: Date | null }
  | { kind: 'record'; command: AgentCommand }
  | { kind: 'image' }
  | { kind: 'volume' }
  | { kind: 'remove-volume' }
  | { kind: 'create'; release: Release }
  | { kind: 'start' | 'stop' | 'freeze' | 'thaw' | 'remove'; container: ContainerView }
  /** Waits until the container is ready, which is recorded; where it is not within the time, the other step is done. */
  | { kind: 'ready'; container: ContainerView; withinMs: number; otherwise: Step }
  /** The agent's last rites: its key is destroyed, its deletion recorded, its streams closed. */
  | { kind: 'bury' }
  | { kind: 'close' };

/** How soon a sleep that work holds up is looked at again. */
const HELD_AGAIN_MS = 1_000;
/** The same for an idle agent that is in use when its time is over. */
const IDLE_AGAIN_MS = 30_000;
/** What a container is given to show that it is well although its time is over. */
const PROBE_MS = 1_000;

/** What the rows below look at. */
interface Look {
  agent: Agent;
  actual: Actual;
  terms: Terms;
  /** The container of the wanted generation. */
  mine: ContainerView | null;
  /** All others: they have no right to be. */
  stale: ContainerView[];
  overdue: boolean;
}

/** The one next thing to do so that the agent's container becomes what its stream wants. Each status is a list of rows; the first that applies wins. */
export function nextStep(agent: Agent, actual: Actual, terms: Terms): Step {
  const mine = actual.containers.find(({ generation }) => generation === agent.generation) ?? null;
  const stale = actual.containers.filter((container) => container !== mine);
  const overdue = agent.deadlineAt !== null && terms.now.getTime() >= Date.parse(agent.deadlineAt);
  return rows[agent.status]({ agent, actual, terms, mine, stale, overdue });
}

const rows: Record<AgentStatus, (look: Look) => Step> = {
  created: (look) => withoutStale(look) ?? rest,
  deploying,
  starting: comingUp,
  restarting: comingUp,
  waking,
  active,
  stopping: (look) => (look.agent.wantedSleep === null ? stopping(look) : fallingAsleep(look)),
  stopped: (look) => withoutStale(look) ?? stopUp(look) ?? rest,
  sleeping: (look) => (look.agent.sleepDepth === 'frozen' ? sleepingFrozen(look) : (withoutStale(look) ?? stopUp(look) ?? rest)),
  error: inError,
  deleting: (look) => nothingLeft(look) ?? { kind: 'bury' },
  deleted: (look) => nothingLeft(look) ?? { kind: 'close' },
};

function deploying(look: Look): Step {
  const { agent, mine, overdue } = look;
  const deploymentId = agent.deployment?.id ?? '';
  return (
    when(overdue, () => deploymentFailed(look, 'deadline', 'the deployment was not finished in time')) ??
    when(agent.deployment?.status === 'queued', () => record({ type: 'RecordDeploymentStarted', deploymentId })) ??
    when(agent.candidate === null, () => ({ kind: 'image' })) ??
    // Late, so that what can fail without harm to the old container has not failed.
    withoutStale(look) ??
    made(look, agent.candidate) ??
    when(agent.deployment?.status === 'building', () =>
      record({ type: 'RecordContainerCreated', deploymentId, generation: agent.generation }),
    ) ??
    when(mine?.state === 'exited', () => deploymentFailed(look, 'start', ended(mine))) ??
    up(look, () => deploymentFailed(look, 'ready', notReady(look)))
  );
}

function comingUp(look: Look): Step {
  const { agent, mine, terms } = look;
  const restartAt = agent.restartAt === null ? null : new Date(agent.restartAt);
  return (
    settledLate(look) ??
    withoutStale(look) ??
    when(restartAt !== null && restartAt > terms.now, () => ({ kind: 'rest', until: restartAt })) ??
    made(look, agent.release) ??
    when(mine?.state === 'exited', () => exitSeen(look, 'exited')) ??
    up(look, () => failed('timeout', notReady(look)))
  );
}

function waking(look: Look): Step {
  const { agent, mine, actual } = look;
  return (
    settledLate(look) ??
    withoutStale(look) ??
    made(look, agent.release) ??
    when(mine?.state === 'exited' && !actual.startedNow, () => onMine(look, 'start')) ??
    when(mine?.state === 'exited', () => exitSeen(look, 'exited')) ??
    up(look, () => failed('timeout', notReady(look)))
  );
}

function active(look: Look): Step {
  const { agent, mine, actual, terms } = look;
  const due = idleDue(look);
  return (
    withoutStale(look) ??
    when(mine === null || mine.state === 'created', () => exitSeen(look, 'removed')) ??
    when(mine?.state === 'exited', () => exitSeen(look, 'exited')) ??
    when(mine?.state === 'frozen', () => onMine(look, 'thaw')) ??
    when(due === null || due > terms.now, () => ({ kind: 'rest', until: due })) ??
    when(actual.held, () => ({ kind: 'rest', until: after(terms.now, IDLE_AGAIN_MS) })) ??
    record({
      type: 'SleepAgent',
      accountId: agent.accountId,
      depth: 'frozen',
      reason: 'idle',
      deadlineAt: terms.deadlines.sleep(terms.now),
    })
  );
}

function stopping(look: Look): Step {
  const running = look.actual.containers.find(isUp);
  return (
    // A stop that did not do it within its time: the container goes as a whole, the volume stays.
    when(look.overdue && running !== undefined, () => ({ kind: 'remove', container: running as ContainerView })) ??
    withoutStale(look) ??
    stopUp(look) ??
    record({ type: 'RecordStopped' })
  );
}

function fallingAsleep(look: Look): Step {
  const { agent, mine, actual, terms, overdue } = look;
  const frozenWanted = agent.wantedSleep === 'frozen';
  const atWork = actual.held && mine !== null && isUp(mine);
  return (
    withoutStale(look) ??
    // The sleep gives way to the work.
    when(atWork && overdue, () =>
      record({ type: 'WakeAgent', accountId: agent.accountId, trigger: 'work', deadlineAt: terms.deadlines.wake(terms.now) }),
    ) ??
    when(atWork, () => ({ kind: 'rest', until: after(terms.now, HELD_AGAIN_MS) })) ??
    when(mine?.state === 'frozen' && frozenWanted, () => record({ type: 'RecordSlept', depth: 'frozen' })) ??
    // An engine that could not freeze it until now gets no further chance.
    when(mine?.state === 'running' && frozenWanted && terms.canFreeze && !overdue, () => onMine(look, 'freeze')) ??
    stopUp(look) ??
    record({ type: 'RecordSlept', depth: 'stopped' })
  );
}

function sleepingFrozen(look: Look): Step {
  const { agent, mine, terms } = look;
  const deepAt = agent.sleptAt === null ? terms.now : after(new Date(agent.sleptAt), terms.deepSleepAfterSeconds * 1_000);
  return (
    withoutStale(look) ??
    when(mine === null || !isUp(mine), () => record({ type: 'RecordSlept', depth: 'stopped' })) ??
    when(agent.wantedSleep === 'stopped', () => stopUp(look)) ??
    when(mine?.state === 'running', () => onMine(look, terms.canFreeze ? 'freeze' : 'stop')) ??
    when(deepAt > terms.now, () => ({ kind: 'rest', until: deepAt })) ??
    record({
      type: 'SleepAgent',
      accountId: agent.accountId,
      depth: 'stopped',
      reason: 'deep',
      deadlineAt: terms.deadlines.sleep(terms.now),
    })
  );
}

function inError(look: Look): Step {
  const { agent, mine, terms } = look;
  return (
    withoutStale(look) ??
    when(agent.failure === 'deployment' && mine !== null, () => endedAndRemoved(mine as ContainerView)) ??
    when(agent.failure === 'deployment' || agent.failure === 'crash', () => rest) ??
    // Seen well again, it leaves the error.
    when(mine?.state === 'running', () => ({ kind: 'ready', container: mine as ContainerView, withinMs: PROBE_MS, otherwise: rest })) ??
    when(agent.failure === 'runtime' && agent.release !== null, () =>
      record({ type: 'RestartAgent', accountId: agent.accountId, deadlineAt: terms.deadlines.restart(terms.now) }),
    ) ??
    rest
  );
}

/** Everything of the agent goes, container before volume. */
function nothingLeft({ actual }: Look): Step | null {
  const [container] = actual.containers;
  if (container !== undefined) return { kind: 'remove', container };
  return when(actual.volume, () => ({ kind: 'remove-volume' }));
}

function withoutStale({ stale }: Look): Step | null {
  const [container] = stale;
  return container === undefined ? null : endedAndRemoved(container);
}

/** Its agent is given the time to end in order. */
function endedAndRemoved(container: ContainerView): Step {
  return { kind: isUp(container) ? 'stop' : 'remove', container };
}

/** Volume and container stand. */
function made({ actual, mine }: Look, release: Release | null): Step | null {
  if (mine !== null && actual.volume) return null;
  if (release === null) return failed('crash', 'there is no image to make its container from');
  return actual.volume ? { kind: 'create', release } : { kind: 'volume' };
}

/** From a container that stands to one that is ready. */
function up(look: Look, late: () => Step): Step {
  const { agent, mine, terms } = look;
  if (mine?.state === 'created') return onMine(look, 'start');
  if (mine?.state === 'frozen') return onMine(look, 'thaw');
  const leftMs = agent.deadlineAt === null ? Infinity : Date.parse(agent.deadlineAt) - terms.now.getTime();
  const withinMs = Math.max(0, Math.min(terms.startTimeoutSeconds * 1_000, leftMs));
  return { kind: 'ready', container: mine as ContainerView, withinMs, otherwise: late() };
}

/** Past its deadline a transition ends as it is seen: well, or failed. */
function settledLate(look: Look): Step | null {
  const late = failed('timeout', 'it was not over in time');
  if (!look.overdue) return null;
  return look.mine?.state === 'running' ? { kind: 'ready', container: look.mine, withinMs: PROBE_MS, otherwise: late } : late;
}

function stopUp({ mine }: Look): Step | null {
  return mine !== null && isUp(mine) ? { kind: 'stop', container: mine } : null;
}

function onMine({ mine }: Look, kind: 'start' | 'stop' | 'freeze' | 'thaw'): Step {
  return { kind, container: mine as ContainerView };
}

function exitSeen({ agent, mine, terms }: Look, cause: 'exited' | 'removed'): Step {
  return record({
    type: 'RecordExit',
    generation: agent.generation,
    exitCode: mine?.exitCode ?? null,
    oom: mine?.oomKilled ?? false,
    cause,
    deadlineAt: terms.deadlines.restart(terms.now),
  });
}

function idleDue({ agent, actual }: Look): Date | null {
  const { serverless, idle_ttl_seconds } = agent.settings;
  if (!serverless || idle_ttl_seconds === 0 || agent.activeSince === null) return null;
  const used = Math.max(Date.parse(agent.activeSince), actual.lastActiveAt?.getTime() ?? 0);
  return after(new Date(used), idle_ttl_seconds * 1_000);
}

function deploymentFailed({ agent }: Look, step: string, reason: string): Step {
  return record({ type: 'RecordDeploymentFailure', deploymentId: agent.deployment?.id ?? '', step, reason });
}

function failed(kind: 'timeout' | 'crash', reason: string): Step {
  return record({ type: 'RecordFailure', kind, reason });
}

function notReady({ terms }: Look): string {
  return `${terms.readiness} did not succeed within ${terms.startTimeoutSeconds} s`;
}

function ended(container: ContainerView | null): string {
  const code = container?.exitCode ?? 'unknown';
  return `the container ended with exit code ${code}${container?.oomKilled ? ', out of memory' : ''}`;
}

function isUp({ state }: ContainerView): boolean {
  return state === 'running' || state === 'frozen';
}

function after(date: Date, ms: number): Date {
  return new Date(date.getTime() + ms);
}

const rest: Step = { kind: 'rest', until: null };

function record(command: AgentCommand): Step {
  return { kind: 'record', command };
}

function when(applies: boolean, step: () => Step | null): Step | null {
  return applies ? step() : null;
}
