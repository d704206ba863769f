import type { Sealed } from '../../../crypto/keyring.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { Decider } from '../../../eventsourcing/event-store/event-definition.ts';
import { bringUpSeconds, deadlineIn, restartSeconds } from '../../../sandboxes/lifecycle/deadlines.rules.ts';
import type { SleepDepth, SleepReason } from '../../../sandboxes/lifecycle/sandbox.rules.ts';
import { computerSandbox } from '../../../sandboxes/sandbox-id.ts';
import { decideRecord, type ComputerRecord } from './computer-records.rules.ts';
import { bootOf, evolve, initialState, isGone, type Computer, type ComputerState } from './computer-state.rules.ts';
import { computerNotFound } from './computers.errors.ts';
import type { ComputerChanges, ComputerEvent, ComputerSettings } from './computers.events.ts';

/** The most variables of one computer. */
export const VARIABLES_MAX = 200;
/** The most bytes of the names and encrypted values of one computer's variables together, since they are part of its state. */
export const VARIABLES_BYTES_MAX = 262_144;

/** The installation's settings for how long a wake may take, in seconds. */
export interface WakeTimes {
  startTimeoutSeconds: number;
  /** The time for a wake whose image is not on the engine yet. */
  deployTimeoutSeconds: number;
}

/**
 * The commands on a computer. A caller's command contains the caller's account, so that another account's computer is answered like a
 * missing one.
 */
export type ComputerCommand =
  | {
      type: 'CreateComputer';
      accountId: string;
      endUserId: string;
      settings: ComputerSettings;
      variables: Record<string, Sealed>;
      deployTimeoutSeconds: number;
    }
  | { type: 'ConfigureComputer'; accountId: string; changes: ComputerChanges }
  /** A computer in `error` is only woken by somebody who asks for that. */
  | ({ type: 'WakeComputer'; accountId: string; trigger: string; fromError: boolean } & WakeTimes)
  | { type: 'SleepComputer'; accountId: string; depth: SleepDepth; reason: SleepReason; deadlineAt: string }
  | { type: 'DeleteComputer'; accountId: string }
  | ComputerRecord;

/** Returns the computer if it belongs to the account and is not deleted. Throws `computer_not_found`. */
export function requireVisible(computer: ComputerState, accountId: string): Computer {
  if (computer === null || computer.accountId !== accountId || computer.status === 'deleted') throw computerNotFound();
  return computer;
}

/** Returns the computer if the account may use it: until its deletion is requested. Throws `computer_not_found`. */
export function requireOwned(computer: ComputerState, accountId: string): Computer {
  if (computer !== null && isGone(computer)) throw computerNotFound();
  return requireVisible(computer, accountId);
}

function decide(command: ComputerCommand, computer: ComputerState, now: Date): ComputerEvent[] {
  switch (command.type) {
    case 'CreateComputer':
      return computer === null ? [created(command, now)] : [];
    case 'ConfigureComputer':
      return configure(requireOwned(computer, command.accountId), command.changes);
    case 'WakeComputer':
      return wake(requireOwned(computer, command.accountId), command, now);
    case 'SleepComputer':
      return sleep(requireOwned(computer, command.accountId), command, now);
    case 'DeleteComputer':
      return deletionOf(requireVisible(computer, command.accountId), now);
    default:
      return computer === null ? [] : decideRecord(command, computer, now);
  }
}

function created(command: Extract<ComputerCommand, { type: 'CreateComputer' }>, now: Date): ComputerEvent {
  const { accountId, endUserId, settings, variables, deployTimeoutSeconds } = command;
  refuseTooMuch(variables);
  return {
    type: 'ComputerCreated',
    data: {
      ...settings,
      account_id: accountId,
      end_user_id: endUserId,
      variables,
      generation: 1,
      deadline_at: deadlineIn(deployTimeoutSeconds, now),
      requested_at: now.toISOString(),
    },
  };
}

function configure(computer: Computer, { variables, ...settings }: ComputerChanges): ComputerEvent[] {
  const current = computer.settings as Record<string, unknown>;
  const changed = Object.entries(settings).filter(
    ([field, value]) => value !== undefined && JSON.stringify(current[field] ?? null) !== JSON.stringify(value),
  );
  const changes: ComputerChanges = Object.fromEntries(changed);
  // Removing a missing variable changes nothing. Values can't be compared, since they are encrypted.
  const set = Object.entries(variables ?? {}).filter(([key, sealed]) => sealed !== null || Object.hasOwn(computer.variables, key));
  if (set.length > 0) {
    changes.variables = Object.fromEntries(set);
    refuseTooMuch(
      Object.fromEntries(Object.entries({ ...computer.variables, ...changes.variables }).filter(([, sealed]) => sealed !== null)),
    );
  }
  return Object.keys(changes).length === 0 ? [] : [{ type: 'ComputerConfigured', data: { changes } }];
}

function refuseTooMuch(variables: Record<string, Sealed | null>): void {
  const entries = Object.entries(variables);
  const bytes = entries.reduce((sum, [key, sealed]) => sum + key.length + (sealed?.ct.length ?? 0), 0);
  const message =
    entries.length > VARIABLES_MAX
      ? `must have at most ${VARIABLES_MAX} variables`
      : bytes > VARIABLES_BYTES_MAX
        ? `must have at most ${VARIABLES_BYTES_MAX} bytes in all`
        : null;
  if (message !== null) throw new ProblemError('invalid_request', `env_vars: ${message}.`, { errors: [{ field: 'env_vars', message }] });
}

function wake(computer: Computer, command: Extract<ComputerCommand, { type: 'WakeComputer' }>, now: Date): ComputerEvent[] {
  const { status, sleepDepth, generation, image, message } = computer;
  const { trigger, fromError, startTimeoutSeconds, deployTimeoutSeconds } = command;
  if (status === 'awake' || status === 'waking' || status === 'creating') return [];
  if (status === 'error' && !fromError)
    throw new ProblemError('invalid_state', `The computer is in error, and has to be woken: ${message ?? ''}`);
  // Changes since the container was created take effect if no memory of the container is lost.
  const renewed = status === 'error' || (status === 'asleep' && sleepDepth === 'stopped' && hasOutdatedBoot(computer));
  const restarted = renewed || status === 'going_to_sleep';
  const seconds = image === null ? deployTimeoutSeconds : (restarted ? restartSeconds : bringUpSeconds)(startTimeoutSeconds);
  return [
    {
      type: 'ComputerWakeRequested',
      data: {
        trigger,
        generation: renewed ? generation + 1 : generation,
        deadline_at: deadlineIn(seconds, now),
        requested_at: now.toISOString(),
      },
    },
  ];
}

function hasOutdatedBoot({ boot, settings }: Computer): boolean {
  const next = bootOf(settings, boot.generation);
  return JSON.stringify(boot) !== JSON.stringify(next);
}

function sleep(computer: Computer, command: Extract<ComputerCommand, { type: 'SleepComputer' }>, now: Date): ComputerEvent[] {
  const { depth, reason, deadlineAt } = command;
  const requested: ComputerEvent = {
    type: 'ComputerSleepRequested',
    data: { depth, reason, deadline_at: deadlineAt, requested_at: now.toISOString() },
  };
  switch (computer.status) {
    case 'awake':
    case 'waking':
      return [requested];
    case 'going_to_sleep':
    case 'asleep':
      return depth === 'stopped' && computer.wantedSleep === 'frozen' ? [requested] : [];
    default:
      throw new ProblemError('invalid_state', `A computer that is ${computer.status} can't be put to sleep.`);
  }
}

/** Returns the events that request the deletion of the computer; none if it is requested already. */
export function deletionOf(computer: Computer, now: Date): Extract<ComputerEvent, { type: 'ComputerDeletionRequested' }>[] {
  if (computer.status === 'deleting') return [];
  const since = computer.activeSince === null ? 0 : Date.parse(computer.activeSince);
  return [{ type: 'ComputerDeletionRequested', data: { requested_at: new Date(Math.max(since, now.getTime())).toISOString() } }];
}

export const computerDecider: Decider<ComputerState, ComputerCommand, ComputerEvent> = {
  initialState,
  decide,
  evolve,
  // The variables are sealed for the sandbox, whose id is the name of the stream.
  snapshot: { name: 'computer', version: 1, subject: (_, id) => computerSandbox(id) },
};
