import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { AccountRow } from './accounts.table.ts';

export interface NewAccount {
  email: string;
  password: string;
  name: string;
  role: 'admin' | 'member';
}

/** Opens an account that its holder can sign in to at once. Throws `account_exists`. */
export class OpenAccount extends Command<AccountRow> {
  constructor(
    readonly context: CommandContext,
    readonly account: NewAccount,
    /**
     * A UUID that is the same for every attempt of one request, so that a later attempt continues an interrupted one; null means that there
     * is no other try.
     */
    readonly seed: string | null,
  ) {
    super();
  }
}

/** Assigns a plan, which replaces the account's current one. Seats that are taken stay taken. Throws `account_not_found`. */
export class AssignPlan extends Command<AccountRow> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly plan: { name: string; seats: number; paymentMethod: boolean; /** Absent means the default number. */ computers?: number },
  ) {
    super();
  }
}

/**
 * Takes a seat for the agent and charges its first month; does nothing if the agent has one. Returns the id of the agent that has the seat,
 * which is another agent if the external id refers to one already. Throws `plan_required`, `seat_limit`.
 */
export class TakeSeat extends Command<string> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly externalId: string | null,
  ) {
    super();
  }
}

/** Releases the agent's seat; does nothing if it has none. */
export class ReleaseSeat extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
  ) {
    super();
  }
}

/**
 * Takes a seat for the computer of that end user; does nothing if the end user has a computer. Returns the id of the computer that has the
 * seat, which is another one if the end user has one already. Throws `plan_required`, `computer_limit`.
 */
export class TakeComputerSeat extends Command<string> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly computerId: string,
    readonly endUserId: string,
  ) {
    super();
  }
}

/** Releases the computer's seat; does nothing if it has none. */
export class ReleaseComputerSeat extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly computerId: string,
  ) {
    super();
  }
}
