import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { computerSandbox, GetLastUse } from '../../sandboxes/index.ts';
import { isGone, isInTransit, type Computer } from './aggregate/computer-state.rules.ts';
import { requireVisible } from './aggregate/computers.decider.ts';
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
import { GetComputer, ListComputers } from './computers.queries.ts';
import { readComputer, type ComputerView } from './rows/computers.table.ts';

/** The longest wait for a computer to wake or to sleep. */
const SETTLE_TIMEOUT_MS = 60_000;

/** A computer at the end of a wait. */
interface Waited {
  computer: Loaded<Computer>;
  /** True if it neither woke nor went to sleep any more before the time was over. */
  reached: boolean;
}

/**
 * Answers HTTP requests about computers. A write is answered with the state that it has left, or that a wait has found, so that it is visible
 * even if the read model lags.
 */
@Injectable()
export class ComputerResponses {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly computers: Computers,
  ) {}

  /** Responds with 201 and the new computer, or with 200 and the end user's existing computer. */
  async create(request: ComputerRequest, call: RequestContext): Promise<ComputerView> {
    const { context, accountId, seed, wait } = call;
    const { computerId, computer, isNew } = await this.commands.execute(new CreateComputer(context, accountId, request, seed));
    const latest = wait === null ? computer : (await this.waitAsPreferred(computerId, call, wait)).computer;
    const shown = await this.shown(computerId, latest, call);
    call.setStatus(isNew ? 201 : 200);
    call.setHeader('location', `/api/v1/computers/${computerId}`);
    return shown;
  }

  async list(query: ListComputersQueryDto, call: RequestContext): Promise<ComputerView[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const chosen = { endUserId: query.end_user_id ?? null, status: query.status ?? null };
    const computers = await this.queries.execute(new ListComputers(call.accountId, chosen, limit, place));
    call.linkAfter(computers, limit, (last) => [last.created_at.toISOString(), last.computer_id]);
    return computers;
  }

  /** Returns the computer from the read model. */
  async show(computerId: string, call: RequestContext): Promise<ComputerView> {
    const computer = await this.queries.execute(new GetComputer(call.accountId, computerId));
    call.setRevision(computer.revision);
    return computer;
  }

  async change(command: ComputerWrite, call: RequestContext): Promise<ComputerView> {
    return this.shown(command.computerId, await this.commands.execute(command), call);
  }

  /**
   * Wakes the computer, and responds with 200 once its first picture is available. Responds with 202 without a wait, or if that takes
   * longer than 60 s or than the caller prefers to wait. Throws the reason of a failed wake.
   */
  async wake(command: WakeComputer, waits: boolean, call: RequestContext): Promise<ComputerView> {
    const { wait } = call;
    const woken = await this.commands.execute(command);
    const computer = waits ? (await this.waitAsPreferred(command.computerId, call, wait)).computer : woken;
    if (computer.state.status === 'error') throw failureOf(computer.state);
    call.setStatus(computer.state.status === 'awake' ? 200 : 202);
    return this.shown(command.computerId, computer, call);
  }

  /**
   * Puts the computer to sleep, and responds with 200 once it sleeps, or with 202 if that takes longer than 60 s or than the caller prefers
   * to wait.
   */
  async sleep(command: SleepComputer, call: RequestContext): Promise<ComputerView> {
    const { wait } = call;
    await this.commands.execute(command);
    const { computer, reached } = await this.waitAsPreferred(command.computerId, call, wait);
    call.setStatus(reached && computer.state.status === 'asleep' ? 200 : 202);
    return this.shown(command.computerId, computer, call);
  }

  /** Answers 204 without a body when the computer is gone, else 202 with the computer that is being deleted. */
  async remove(command: DeleteComputer, call: RequestContext): Promise<ComputerView | undefined> {
    const { gone, ...computer } = await this.commands.execute(command);
    call.setStatus(gone ? 204 : 202);
    if (!gone) return this.shown(command.computerId, computer, call);
    call.notePosition(computer.position);
    return undefined;
  }

  /** Like `waitUntilSettled`. Sets `Preference-Applied` if it waited as the caller preferred. */
  private async waitAsPreferred(computerId: string, call: RequestContext, wait: number | null): Promise<Waited> {
    const waited = await this.waitUntilSettled(computerId, call, wait === null ? SETTLE_TIMEOUT_MS : wait * 1_000);
    if (wait !== null && waited.reached) call.setPreferenceApplied();
    return waited;
  }

  /** Returns the computer as soon as it neither wakes nor goes to sleep, or as it is when the time is over. Throws `computer_not_found`. */
  private async waitUntilSettled(computerId: string, call: RequestContext, timeoutMs: number): Promise<Waited> {
    const find = async (): Promise<Loaded<Computer>> => {
      const found = await this.computers.find(computerId);
      return { ...found, state: requireVisible(found.state, call.accountId) };
    };
    const probe = async () => {
      const computer = await find();
      const { state } = computer;
      return isInTransit(state) || isGone(state) || isFallingDeeperAsleep(state) ? undefined : computer;
    };
    const settled = await this.computers.until(computerId, probe, { timeoutMs, signal: call.goneSignal() });
    return { computer: settled ?? (await find()), reached: settled !== null };
  }

  private async shown(computerId: string, computer: Loaded<Computer>, call: RequestContext): Promise<ComputerView> {
    call.setState(computer);
    return readComputer(computerId, computer, await this.queries.execute(new GetLastUse(computerSandbox(computerId))));
  }
}

/** Returns whether a deeper sleep of a sleeping computer was requested. */
function isFallingDeeperAsleep({ status, requestedAt }: Computer): boolean {
  return status === 'asleep' && requestedAt !== null;
}

function failureOf({ failure, message }: Computer): ProblemError {
  const detail = message ?? 'The computer failed.';
  switch (failure) {
    case 'capacity':
      return new ProblemError('capacity', detail, { retryAfterSeconds: 10 });
    case 'timeout':
      return new ProblemError('desktop_timeout', detail);
    default:
      return new ProblemError('desktop_unreachable', detail);
  }
}
