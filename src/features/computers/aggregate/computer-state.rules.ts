import type { Sealed } from '../../../crypto/keyring.ts';
import type { AgentEgress } from '../../../kernel/network/allow-list.ts';
import { CRASHES_MAX } from '../../../sandboxes/lifecycle/crashes.rules.ts';
import type { Sandbox } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import type { ComputerEvent, ComputerFailureKind, ComputerSettings, ComputerSize, Display, WokeAfter } from './computers.events.ts';

export const computerStatuses = ['creating', 'waking', 'awake', 'going_to_sleep', 'asleep', 'error', 'deleting', 'deleted'] as const;
export type ComputerStatus = (typeof computerStatuses)[number];
/** The status that callers see. A deleted computer is not found. */
export type ShownStatus = 'creating' | 'waking' | 'awake' | 'asleep' | 'error' | 'deleting';

/** The settings with which the container of a generation was created. Later changes take effect at the next boot. */
export interface Boot {
  generation: number;
  size: ComputerSize;
  display: Display;
  egress: AgentEgress | null;
}

export interface Computer extends Sandbox {
  endUserId: string;
  settings: ComputerSettings;
  /** The variables of the computer's programs, encrypted. */
  variables: Readonly<Record<string, Sealed>>;
  /** The image of the container; null until it is ready for the first time. */
  image: string | null;
  boot: Boot;
  status: ComputerStatus;
  /** A sentence about the status; null if there is none. */
  message: string | null;
  failure: ComputerFailureKind | null;
  /** The state before the wake in progress; null if no wake is in progress. */
  wakesFrom: WokeAfter | null;
  /**
   * The time at which the transition in progress, or a deeper sleep, was requested; null if unknown. While a computer wakes that has not
   * slept yet, it is the time of the request to sleep, after which it may have slept nevertheless.
   */
  requestedAt: string | null;
  /** The end of the last time awake. The next one can't start before it. */
  lastAwakeUntil: string | null;
  /** The replica for whose interrupted batch the input was released last. */
  inputReleasedFor: string | null;
}

/** The state is null before the computer is created. */
export type ComputerState = Computer | null;

const inTransit: readonly ComputerStatus[] = ['creating', 'waking', 'going_to_sleep'];

export function isInTransit({ status }: Computer): boolean {
  return inTransit.includes(status);
}

/** Returns whether the deletion was requested or is done. */
export function isGone({ status }: Computer): boolean {
  return status === 'deleting' || status === 'deleted';
}

/** Returns whether a wake needs memory to be reserved. A frozen computer keeps its memory. */
export function needsMemory({ status, sleepDepth, wantedSleep }: Computer): boolean {
  return status === 'error' || sleepDepth === 'stopped' || (status === 'going_to_sleep' && wantedSleep === 'stopped');
}

/** Returns the status that callers see. A computer that is going to sleep counts as awake until it sleeps. */
export function shownStatus({ status, activeSince }: Computer): ShownStatus {
  switch (status) {
    case 'going_to_sleep':
      return activeSince === null ? 'waking' : 'awake';
    case 'deleted':
      return 'deleting';
    default:
      return status;
  }
}

/** Returns the settings for a container that is created now. */
export function bootOf({ size, display, egress = null }: ComputerSettings, generation: number): Boot {
  return { generation, size, display, egress };
}

/** The value is true for events that change the computer's status. The others do not interrupt what it is doing. */
const TRANSITIONS: Record<ComputerEvent['type'], boolean> = {
  ComputerCreated: true,
  ComputerConfigured: false,
  ComputerDeletionRequested: true,
  ComputerDeleted: true,
  ComputerImageResolved: false,
  ComputerWakeRequested: true,
  ComputerWoke: true,
  ComputerSleepRequested: true,
  ComputerSlept: true,
  ComputerExited: true,
  ComputerFailed: true,
  ComputerActed: false,
  ComputerInputReleased: false,
};

/** Returns whether an event of the type changes the computer's status, and so causes what it does afterwards. */
export function beginsTransition(type: string): boolean {
  return Object.hasOwn(TRANSITIONS, type) && TRANSITIONS[type as ComputerEvent['type']];
}

export const initialState = (): ComputerState => null;

type Data<Type extends ComputerEvent['type']> = Extract<ComputerEvent, { type: Type }>['data'];

export function evolve(computer: ComputerState, event: ComputerEvent): ComputerState {
  if (event.type === 'ComputerCreated') return created(event.data);
  if (computer === null) return computer;
  switch (event.type) {
    case 'ComputerConfigured':
      return configured(computer, event.data);
    case 'ComputerDeletionRequested':
      return settled(withAwakeEnd(computer, event.data.requested_at), 'deleting');
    case 'ComputerDeleted':
      return settled(computer, 'deleted');
    case 'ComputerImageResolved':
      return withImage(computer, event.data);
    case 'ComputerWakeRequested':
      return waking(computer, event.data);
    case 'ComputerWoke':
      return Object.assign(settled(computer, 'awake'), { activeSince: event.data.started_at });
    case 'ComputerSleepRequested':
      return goingToSleep(computer, event.data);
    case 'ComputerSlept':
      return slept(computer, event.data);
    case 'ComputerExited':
      return afterExit(withAwakeEnd(computer, event.data.exited_at), event.data);
    case 'ComputerFailed':
      return Object.assign(settled(withAwakeEnd(computer, event.data.failed_at), 'error', event.data.reason), { failure: event.data.kind });
    case 'ComputerInputReleased':
      return { ...computer, inputReleasedFor: event.data.owner };
    case 'ComputerActed':
      return computer;
    default:
      event satisfies never;
      return computer;
  }
}

const NEW_MESSAGE = 'The image of computers is being made ready.';
const FIRST_START_MESSAGE = 'It is being started for the first time.';

function created(data: Data<'ComputerCreated'>): Computer {
  const { account_id, end_user_id, variables, generation, deadline_at, requested_at, ...settings } = data;
  return {
    accountId: account_id,
    endUserId: end_user_id,
    settings,
    variables,
    image: null,
    generation,
    boot: bootOf(settings, generation),
    status: 'creating',
    message: NEW_MESSAGE,
    failure: null,
    wakesFrom: 'nothing',
    requestedAt: requested_at,
    deadlineAt: deadline_at,
    restartAt: null,
    wantedSleep: null,
    sleepDepth: null,
    sleptAt: null,
    activeSince: null,
    lastAwakeUntil: null,
    crashes: 0,
    inputReleasedFor: null,
  };
}

/**
 * Returns the computer in the status, with no transition in progress, as a new object that the caller may modify. It is copied member by
 * member, because rebuilds apply millions of events and a spread takes twenty times as long.
 */
function settled(computer: Computer, status: ComputerStatus, message: string | null = null): Computer {
  return {
    accountId: computer.accountId,
    endUserId: computer.endUserId,
    settings: computer.settings,
    variables: computer.variables,
    image: computer.image,
    generation: computer.generation,
    boot: computer.boot,
    status,
    message,
    failure: null,
    wakesFrom: null,
    requestedAt: null,
    deadlineAt: null,
    restartAt: null,
    wantedSleep: null,
    sleepDepth: null,
    sleptAt: null,
    activeSince: null,
    lastAwakeUntil: computer.lastAwakeUntil,
    crashes: computer.crashes,
    inputReleasedFor: computer.inputReleasedFor,
  };
}

/** Ends the time awake, if the computer was awake. */
function withAwakeEnd(computer: Computer, at: string): Computer {
  return computer.activeSince === null ? computer : { ...computer, lastAwakeUntil: at };
}

function configured(computer: Computer, { changes: { variables: changed, ...settings } }: Data<'ComputerConfigured'>): Computer {
  const next = { ...computer, settings: { ...computer.settings, ...settings } };
  if (changed === undefined) return next;
  const variables: Record<string, Sealed> = {};
  for (const [key, sealed] of Object.entries({ ...computer.variables, ...changed })) if (sealed !== null) variables[key] = sealed;
  return { ...next, variables };
}

/** An image that differs from that of the present container makes the container outdated. */
function withImage(computer: Computer, { image, generation }: Data<'ComputerImageResolved'>): Computer {
  const message = computer.status === 'creating' ? FIRST_START_MESSAGE : computer.message;
  const boot = generation === computer.generation ? computer.boot : bootOf(computer.settings, generation);
  return { ...computer, image, generation, boot, message };
}

function waking(computer: Computer, { generation, deadline_at, requested_at }: Data<'ComputerWakeRequested'>): Computer {
  const { status, sleepDepth, activeSince, sleptAt } = computer;
  const failed = status === 'error';
  return Object.assign(settled(computer, 'waking', computer.image === null ? NEW_MESSAGE : null), {
    generation,
    boot: generation === computer.generation ? computer.boot : bootOf(computer.settings, generation),
    deadlineAt: deadline_at,
    requestedAt: activeSince === null ? requested_at : computer.requestedAt,
    wakesFrom: wakesFrom(computer),
    sleepDepth,
    sleptAt,
    activeSince,
    crashes: failed ? 0 : computer.crashes,
  });
}

function wakesFrom({ sleepDepth, activeSince, lastAwakeUntil }: Computer): WokeAfter {
  if (activeSince !== null) return 'awake';
  if (sleepDepth !== null) return sleepDepth;
  return lastAwakeUntil === null ? 'nothing' : 'crash';
}

function goingToSleep(computer: Computer, { depth, deadline_at, requested_at }: Data<'ComputerSleepRequested'>): Computer {
  // Callers see `asleep` while a sleep is deepened.
  if (computer.status === 'asleep') return { ...computer, wantedSleep: depth, requestedAt: requested_at };
  return Object.assign(settled(computer, 'going_to_sleep'), {
    deadlineAt: deadline_at,
    requestedAt: requested_at,
    wantedSleep: depth,
    activeSince: computer.activeSince,
  });
}

function slept(computer: Computer, { depth, slept_at }: Data<'ComputerSlept'>): Computer {
  const sleptAt = computer.sleptAt ?? slept_at;
  const lastAwakeUntil = computer.activeSince === null ? computer.lastAwakeUntil : slept_at;
  // A wake that was requested before the computer slept continues.
  if (computer.status === 'waking')
    return { ...computer, sleepDepth: depth, sleptAt, lastAwakeUntil, activeSince: null, wakesFrom: depth, requestedAt: null };
  const wantedSleep = depth === 'stopped' ? depth : (computer.wantedSleep ?? depth);
  return Object.assign(settled(computer, 'asleep'), {
    sleepDepth: depth,
    sleptAt,
    lastAwakeUntil,
    wantedSleep,
    // A deeper sleep that was requested meanwhile is still pending.
    requestedAt: wantedSleep === depth ? null : computer.requestedAt,
  });
}

function afterExit(computer: Computer, { cause, exit_code, oom, crashes, restart }: Data<'ComputerExited'>): Computer {
  const how = cause === 'removed' ? 'its container was removed' : `exit code ${exit_code ?? 'unknown'}${oom ? ', out of memory' : ''}`;
  if (restart === null) {
    const message = `It keeps crashing (${how}), ${crashes} times in a row.`;
    return Object.assign(settled(computer, 'error', message), { failure: 'crash' as const, crashes });
  }
  const message = `It ended (${how}) and is being started again, attempt ${crashes} of ${CRASHES_MAX - 1}.`;
  return Object.assign(settled(computer, 'waking', message), {
    crashes,
    generation: restart.generation,
    boot: bootOf(computer.settings, restart.generation),
    deadlineAt: restart.deadline_at,
    restartAt: restart.at,
    wakesFrom: 'crash' as const,
  });
}
