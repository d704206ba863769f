import { Injectable } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { accountDecider, accountNotFound, agentFor, computerFor, type AccountCommand } from './aggregate/accounts.decider.ts';
import { Credentials } from './credentials/credentials.ts';
import { normalizeEmail } from './credentials/email.ts';
import { AssignPlan, OpenAccount, ReleaseComputerSeat, ReleaseSeat, TakeComputerSeat, TakeSeat } from './accounts.commands.ts';
import { type AccountRow, readAccount } from './accounts.table.ts';

/** Writes accounts, and answers with them. */
@Injectable()
export class AccountWriter {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly credentials: Credentials,
  ) {}

  /**
   * Executes the command; its event belongs to the account that it is about, even if an administrator or a caller without an account sent it.
   * Returns the account after it.
   */
  async write(accountId: string, command: AccountCommand, context: CommandContext): Promise<AccountRow> {
    const { state, createdAt } = await this.aggregates.execute(`account-${accountId}`, accountDecider, command, context, { accountId });
    if (state === null) throw accountNotFound();
    return readAccount(accountId, { state, createdAt }, await this.credentials.emailOf(accountId));
  }
}

/**
 * Writes the credentials first and then the event. Credentials alone make no account, and the next try completes it; an event alone would
 * make an account that nobody can sign in to.
 */
@CommandHandler(OpenAccount)
export class OpenAccountHandler implements ICommandHandler<OpenAccount> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly credentials: Credentials,
    private readonly writer: AccountWriter,
  ) {}

  async execute({ context, account, seed }: OpenAccount): Promise<AccountRow> {
    const { password, name, role } = account;
    const id = seed === null ? uuidv7() : uuidv5('account', seed);
    const owner = await this.credentials.claim(normalizeEmail(account.email), id, password);
    if (owner === null) throw accountExists();
    if (owner.accountId !== id) {
      const standing = await this.aggregates.load(`account-${owner.accountId}`, accountDecider);
      if (standing.state !== null || owner.isRecent) throw accountExists();
      await this.credentials.setPassword(owner.accountId, password);
    } else if (!owner.isNew) {
      // An earlier attempt of the same request was interrupted. If it generated a password, that password was never returned.
      await this.credentials.setPassword(owner.accountId, password);
    }
    return this.writer.write(owner.accountId, { type: 'OpenAccount', name, role }, context);
  }
}

function accountExists(): ProblemError {
  return new ProblemError('account_exists', 'An account with this address exists.');
}

@CommandHandler(AssignPlan)
export class AssignPlanHandler implements ICommandHandler<AssignPlan> {
  constructor(private readonly writer: AccountWriter) {}

  async execute({ context, accountId, plan }: AssignPlan): Promise<AccountRow> {
    return this.writer.write(accountId, { type: 'AssignPlan', ...plan }, context);
  }
}

@CommandHandler(TakeSeat)
export class TakeSeatHandler implements ICommandHandler<TakeSeat> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, agentId, externalId }: TakeSeat): Promise<string> {
    const command = { type: 'TakeSeat' as const, agentId, externalId };
    const { state } = await this.aggregates.execute(`account-${accountId}`, accountDecider, command, context);
    return (externalId === null ? null : agentFor(state, externalId)) ?? agentId;
  }
}

@CommandHandler(ReleaseSeat)
export class ReleaseSeatHandler implements ICommandHandler<ReleaseSeat> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, agentId }: ReleaseSeat): Promise<void> {
    await this.aggregates.execute(`account-${accountId}`, accountDecider, { type: 'ReleaseSeat', agentId }, context);
  }
}

@CommandHandler(TakeComputerSeat)
export class TakeComputerSeatHandler implements ICommandHandler<TakeComputerSeat> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, computerId, endUserId }: TakeComputerSeat): Promise<string> {
    const command = { type: 'TakeComputerSeat' as const, computerId, endUserId };
    const { state } = await this.aggregates.execute(`account-${accountId}`, accountDecider, command, context);
    return computerFor(state, endUserId) ?? computerId;
  }
}

@CommandHandler(ReleaseComputerSeat)
export class ReleaseComputerSeatHandler implements ICommandHandler<ReleaseComputerSeat> {
  constructor(private readonly aggregates: Aggregates) {}

  async execute({ context, accountId, computerId }: ReleaseComputerSeat): Promise<void> {
    await this.aggregates.execute(`account-${accountId}`, accountDecider, { type: 'ReleaseComputerSeat', computerId }, context);
  }
}
