import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { Computer } from './aggregate/computer-state.rules.ts';
import type { ComputerSettings, ComputerSize, Display } from './aggregate/computers.events.ts';

/** A caller's request for a new computer. An absent member has its default. */
export interface ComputerRequest extends Partial<ComputerSettings> {
  endUserId: string;
  size?: ComputerSize;
  display?: Display;
  /** The variables of its programs, in clear. */
  variables?: Record<string, string>;
}

export interface CreateComputerResult {
  computerId: string;
  /** The computer as it was made or found. */
  computer: Loaded<Computer>;
  /** The value is false if the end user already had a computer. */
  isNew: boolean;
}

/**
 * Creates the end user's computer, or finds the existing one. Throws `plan_required`, `computer_limit`, `capacity`, and
 * `computer_conflict` if the computer that exists has another size or screen than the request names.
 */
export class CreateComputer extends Command<CreateComputerResult> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly request: ComputerRequest,
    /** A UUID that is the same for every try of one request, so that a later try continues an interrupted one; null means that there is no other. */
    readonly seed: string | null,
  ) {
    super();
  }
}

/** A write leaves the computer in the state that it results in. */
export abstract class ComputerWrite<Result = Loaded<Computer>> extends Command<Result> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly computerId: string,
    /** The revisions at which the caller allows the write; null allows any. */
    readonly ifMatch: readonly number[] | null = null,
  ) {
    super();
  }
}

/** The settings to change, and the variables in plain text; null removes a variable. */
export interface ComputerPatch {
  settings: Partial<Omit<ComputerSettings, 'timezone'>>;
  variables: Record<string, string | null>;
}

/** Changes the computer's settings and variables. Those that concern its container take effect at the next boot. Throws `invalid_request`. */
export class ConfigureComputer extends ComputerWrite {
  constructor(
    context: CommandContext,
    accountId: string,
    computerId: string,
    ifMatch: readonly number[] | null,
    readonly patch: ComputerPatch,
  ) {
    super(context, accountId, computerId, ifMatch);
  }
}

/** Wakes the computer, also after a failure. Throws `capacity`. */
export class WakeComputer extends ComputerWrite {}

/** Puts the computer to sleep, which ends its programs. Throws `session_connected` if a viewer is connected and the sleep is not forced. */
export class SleepComputer extends ComputerWrite {
  constructor(
    context: CommandContext,
    accountId: string,
    computerId: string,
    ifMatch: readonly number[] | null,
    readonly isForced: boolean,
  ) {
    super(context, accountId, computerId, ifMatch);
  }
}

/** Deletes the computer with its container and volume, and waits up to 30 s for that. The position is that of its end if it is gone. */
export class DeleteComputer extends ComputerWrite<Loaded<Computer> & { gone: boolean }> {}
