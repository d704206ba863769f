import { afterExit } from '../../../sandboxes/lifecycle/crashes.rules.ts';
import type { LifecycleRecord } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import { isGone, isInTransit, type Computer } from './computer-state.rules.ts';
import type { ComputerEvent, ComputerFailureKind } from './computers.events.ts';

/** The observations of the saga, and of the code that drives the desktop. A late or repeated record changes nothing. */
export type ComputerRecord =
  | LifecycleRecord
  /** The image of computers is on the engine. */
  | { type: 'RecordImage'; image: string; imageName: string }
  /** The memory of the machine, or the account's share of it, was taken until the deadline. */
  | { type: 'RecordNoCapacity'; reason: string }
  /** Keys and buttons were released that the replica may have left pressed. */
  | { type: 'RecordInputReleased'; owner: string }
  | { type: 'RecordActed'; actions: Record<string, number>; batches: number; screenshots: number; since: string; until: string };

/** Returns the events that follow from an observation. */
export function decideRecord(command: ComputerRecord, computer: Computer, now: Date): ComputerEvent[] {
  switch (command.type) {
    case 'RecordImage':
      return recordImage(computer, command.image, command.imageName);
    case 'RecordReady':
      return computer.generation === command.generation ? recordReady(computer, command.at, now) : [];
    case 'RecordSlept':
      return recordSlept(computer, command, now);
    case 'RecordExit':
      return recordExit(computer, command, now);
    case 'RecordFailure':
      return isInTransit(computer) ? [failed(computer, command.kind, command.reason, now)] : [];
    case 'RecordNoCapacity':
      return isStarting(computer) ? [failed(computer, 'capacity', command.reason, now)] : [];
    case 'RecordVolumeFull':
      return recordVolumeFull(computer, command.reason, now);
    case 'RecordDeleted':
      return computer.status === 'deleting' ? [{ type: 'ComputerDeleted', data: {} }] : [];
    case 'RecordInputReleased':
      if (computer.status !== 'awake' || computer.inputReleasedFor === command.owner) return [];
      return [{ type: 'ComputerInputReleased', data: { owner: command.owner } }];
    case 'RecordActed': {
      const { type: _, ...counts } = command;
      return isGone(computer) ? [] : [{ type: 'ComputerActed', data: counts }];
    }
    case 'RecordStopped':
      // A computer is never stopped; it sleeps.
      return [];
  }
}

function isStarting({ status }: Computer): boolean {
  return status === 'creating' || status === 'waking';
}

/** A different image needs a new container. */
function recordImage(computer: Computer, image: string, image_name: string): ComputerEvent[] {
  if (!isStarting(computer) || computer.image === image) return [];
  const generation = computer.image === null ? computer.generation : computer.generation + 1;
  return [{ type: 'ComputerImageResolved', data: { image, image_name, generation } }];
}

function recordReady(computer: Computer, at: string | undefined, now: Date): ComputerEvent[] {
  const { status, failure, lastAwakeUntil, activeSince, generation, boot } = computer;
  // A container that becomes ready after its deadline is not a failure any more.
  const late = status === 'error' && (failure === 'timeout' || failure === 'runtime');
  if (!isStarting(computer) && !late) return [];
  const after = computer.wakesFrom ?? (lastAwakeUntil === null ? 'nothing' : 'crash');
  const started_at = activeSince ?? clampTime(at, lastAwakeUntil, now);
  return [{ type: 'ComputerWoke', data: { after, generation, started_at, size: boot.size } }];
}

function recordSlept(computer: Computer, { depth, at }: Extract<LifecycleRecord, { type: 'RecordSlept' }>, now: Date): ComputerEvent[] {
  const { status, sleepDepth, activeSince } = computer;
  const deeper = status === 'asleep' && depth === 'stopped' && sleepDepth === 'frozen';
  // A computer whose wake was requested before it slept may have slept nevertheless.
  const meanwhile = status === 'waking' && activeSince !== null;
  if (status !== 'going_to_sleep' && !deeper && !meanwhile) return [];
  return [{ type: 'ComputerSlept', data: { depth, slept_at: clampTime(at, activeSince, now) } }];
}

function recordExit(computer: Computer, exit: Extract<LifecycleRecord, { type: 'RecordExit' }>, now: Date): ComputerEvent[] {
  const expectedUp = isStarting(computer) || computer.status === 'awake';
  if (!expectedUp || exit.generation !== computer.generation) return [];
  return [
    {
      type: 'ComputerExited',
      data: {
        generation: exit.generation,
        exit_code: exit.exitCode,
        oom: exit.oom,
        cause: exit.cause,
        exited_at: clampTime(exit.at, computer.activeSince, now),
        ...afterExit(computer, exit.startTimeoutSeconds, now),
      },
    },
  ];
}

function failed(computer: Computer, kind: ComputerFailureKind, reason: string, now: Date): ComputerEvent {
  return {
    type: 'ComputerFailed',
    data: { during: computer.status, kind, reason, failed_at: clampTime(undefined, computer.activeSince, now) },
  };
}

/** A computer whose container is stopped, or is being stopped, can't write any more. */
function recordVolumeFull(computer: Computer, reason: string, now: Date): ComputerEvent[] {
  const { status, failure } = computer;
  const stillRuns = status === 'error' && (failure === 'timeout' || failure === 'runtime');
  const writes = isInTransit(computer) || status === 'awake' || status === 'asleep';
  return writes || stillRuns ? [failed(computer, 'volume', reason, now)] : [];
}

/**
 * Returns the engine's time of an event, or now if it is not known. The engine's clock may differ from the service's, so the time is
 * limited to the range from `earliest` to now.
 */
function clampTime(at: string | undefined, earliest: string | null, now: Date): string {
  const times = [Math.min(at === undefined ? Infinity : Date.parse(at), now.getTime())];
  if (earliest !== null) times.push(Date.parse(earliest));
  return new Date(Math.max(...times)).toISOString();
}
