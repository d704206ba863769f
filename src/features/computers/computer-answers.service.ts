import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Refusal } from '../../kernel/errors/refusal.ts';
import { noteWritten } from '../../kernel/context/command-context.ts';
import type { Call } from '../../http/server/call.ts';
import { isGone, isInTransit, type Computer } from './aggregate/computer-state.decider.ts';
import { visible } from './aggregate/computers.decider.ts';
import { Computers } from './aggregate/computers.service.ts';
import {
  CreateComputer,
  DeleteComputer,
  SleepComputer,
  WakeComputer,
  type ComputerRequest,
  type ComputerWrite,
} from './computers.commands.ts';
import type { ListComputersQueryDto } from './computers.dto.ts';
import { GetComputer, GetWrittenComputer, ListComputers } from './computers.queries.ts';
import type { ShownComputer } from './rows/computers.table.ts';

/** The longest wait for a computer to wake or to sleep. */
const SETTLED_WITHIN_MS = 60_000;

/** Answers HTTP requests about computers. */
@Injectable()
export class ComputerAnswers {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly computers: Computers,
  ) {}

  /** Answers 201 with the new computer, or 200 with the one that the end user has. */
  async create(request: ComputerRequest, call: Call): Promise<ShownComputer> {
    const { context, accountId, seed, wait } = call;
    const { computerId, made } = await this.commands.execute(new CreateComputer(context, accountId, request, seed));
    if (wait !== null) await this.settledAsPreferred(computerId, call, wait);
    const computer = await this.showWritten(computerId, call);
    call.setStatus(made ? 201 : 200);
    call.setHeader('location', `/api/v1/computers/${computerId}`);
    return computer;
  }

  async list(query: ListComputersQueryDto, call: Call): Promise<ShownComputer[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const chosen = { endUserId: query.end_user_id ?? null, status: query.status ?? null };
    const computers = await this.queries.execute(new ListComputers(call.accountId, chosen, limit, place));
    call.linkAfter(computers, limit, (last) => [last.created_at.toISOString(), last.computer_id]);
    return computers;
  }

  /** Returns the computer from the read model. */
  async show(computerId: string, call: Call): Promise<ShownComputer> {
    const computer = await this.queries.execute(new GetComputer(call.accountId, computerId));
    call.setRevision(computer.revision);
    return computer;
  }

  async change(command: ComputerWrite, call: Call): Promise<ShownComputer> {
    await this.commands.execute(command);
    return this.showWritten(command.computerId, call);
  }

  /**
   * Wakes the computer, and answers 200 once its first picture is there; 202 without a wait, or if that takes over 60 s, or longer than the caller
   * prefers to wait. Throws what made it fail.
   */
  async wake(command: WakeComputer, waits: boolean, call: Call): Promise<ShownComputer> {
    const { wait } = call;
    await this.commands.execute(command);
    const computer = waits ? await this.settledAsPreferred(command.computerId, call, wait) : await this.owned(command.computerId, call);
    if (computer?.status === 'error') throw failureOf(computer);
    call.setStatus(computer?.status === 'awake' ? 200 : 202);
    return this.showWritten(command.computerId, call);
  }

  /** Puts the computer to sleep, and answers 200 once it sleeps; 202 if that takes over 60 s, or longer than the caller prefers to wait. */
  async sleep(command: SleepComputer, call: Call): Promise<ShownComputer> {
    const { wait } = call;
    await this.commands.execute(command);
    const computer = await this.settledAsPreferred(command.computerId, call, wait);
    call.setStatus(computer?.status === 'asleep' ? 200 : 202);
    return this.showWritten(command.computerId, call);
  }

  /** Answers 204 without a body when the computer is gone, else 202 with the computer that is being deleted. */
  async remove(command: DeleteComputer, call: Call): Promise<ShownComputer | undefined> {
    const { gone } = await this.commands.execute(command);
    call.setStatus(gone ? 204 : 202);
    return gone ? undefined : this.showWritten(command.computerId, call);
  }

  /** Does as `settled`, and says that it waited as the caller preferred, if that is so. */
  private async settledAsPreferred(computerId: string, call: Call, wait: number | null): Promise<Computer | null> {
    const computer = await this.settled(computerId, call, wait === null ? SETTLED_WITHIN_MS : wait * 1_000);
    if (wait !== null && computer !== null) call.setPreferenceApplied();
    return computer;
  }

  private async owned(computerId: string, { accountId }: Call): Promise<Computer> {
    return visible((await this.computers.find(computerId)).state, accountId);
  }

  /** Returns the computer as soon as it neither wakes nor goes to sleep; null if that takes longer. Throws `computer_not_found`. */
  private async settled(computerId: string, call: Call, timeoutMs: number): Promise<Computer | null> {
    return this.computers.until(
      computerId,
      async () => {
        const computer = await this.owned(computerId, call);
        return isInTransit(computer) || isGone(computer) || sleepsDeeper(computer) ? undefined : computer;
      },
      { timeoutMs, signal: call.goneSignal() },
    );
  }

  /** Returns the computer after a write or a wait from its stream, so that an appended write is visible even if the read model lags. */
  private async showWritten(computerId: string, call: Call): Promise<ShownComputer> {
    const { context, accountId } = call;
    const { computer, position } = await this.queries.execute(new GetWrittenComputer(accountId, computerId, context.seenUpTo));
    // The caller's next read must not be older than this answer.
    noteWritten(context, position);
    call.setRevision(computer.revision);
    return computer;
  }
}

/** Returns true while a computer that sleeps is to sleep deeper at somebody's request. */
function sleepsDeeper({ status, requestedAt }: Computer): boolean {
  return status === 'asleep' && requestedAt !== null;
}

function failureOf({ failure, message }: Computer): Refusal {
  const detail = message ?? 'The computer failed.';
  switch (failure) {
    case 'capacity':
      return new Refusal('capacity', detail, { retryAfterSeconds: 10 });
    case 'timeout':
      return new Refusal('desktop_timeout', detail);
    default:
      return new Refusal('desktop_unreachable', detail);
  }
}
