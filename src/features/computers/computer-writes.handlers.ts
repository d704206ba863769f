import { Injectable } from '@nestjs/common';
import { CommandBus, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';

import { ReleaseComputerSeat } from '../accounts/index.ts';
import { AllowLists } from '../agents/services.ts';
import { Clock } from '../../kernel/clock.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import { checkRevision } from '../../http/responses/etag.ts';
import { sleepDeadline } from '../../sandboxes/lifecycle/deadlines.rules.ts';
import type { Computer } from './aggregate/computer-state.rules.ts';
import { requireVisible, type ComputerCommand } from './aggregate/computers.decider.ts';
import { Computers } from './aggregate/computers.service.ts';
import { ComputerVariables } from './variables/computer-variables.service.ts';
import { ComputerWakes } from './computer-wakes.service.ts';
import { ConfigureComputer, DeleteComputer, SleepComputer, WakeComputer, type ComputerWrite } from './computers.commands.ts';
import { ViewerWatch } from './watch/viewer-watch.service.ts';

/** Executes commands on the computer's stream. */
@Injectable()
export class ComputerWriter {
  constructor(private readonly computers: Computers) {}

  async write(write: ComputerWrite<unknown>, command: ComputerCommand): Promise<Loaded<Computer>> {
    const { context, accountId, computerId } = write;
    return this.computers.write(computerId, accountId, command, context, await this.requireMatch(write));
  }

  /** Returns the revision at which the caller allows the write, which is the newest; none if any is allowed. Throws `revision_mismatch`. */
  async requireMatch({ accountId, computerId, ifMatch }: ComputerWrite<unknown>): Promise<{ expectedRevision?: number }> {
    if (ifMatch === null) return {};
    const { state, revision } = await this.computers.find(computerId);
    requireVisible(state, accountId);
    checkRevision(ifMatch, revision);
    return { expectedRevision: revision };
  }
}

@CommandHandler(ConfigureComputer)
export class ConfigureComputerHandler implements ICommandHandler<ConfigureComputer> {
  constructor(
    private readonly writer: ComputerWriter,
    private readonly computers: Computers,
    private readonly variables: ComputerVariables,
    private readonly allowLists: AllowLists,
  ) {}

  async execute(configure: ConfigureComputer): Promise<Loaded<Computer>> {
    const { accountId, computerId, patch } = configure;
    const { settings, variables } = patch;
    this.allowLists.refuseUnsupported(settings.egress);
    // Ownership is checked first, so that another account can't create a data key for this computer.
    await this.computers.load(computerId, accountId);
    const sealed = Object.keys(variables).length === 0 ? {} : { variables: await this.variables.seal(computerId, variables) };
    return this.writer.write(configure, { type: 'ConfigureComputer', accountId, changes: { ...settings, ...sealed } });
  }
}

@CommandHandler(WakeComputer)
export class WakeComputerHandler implements ICommandHandler<WakeComputer> {
  constructor(
    private readonly writer: ComputerWriter,
    private readonly wakes: ComputerWakes,
  ) {}

  async execute(wake: WakeComputer): Promise<Loaded<Computer>> {
    const { context, accountId, computerId } = wake;
    const order = { computerId, accountId, trigger: 'wake', fromError: true, context };
    return this.wakes.request(order, await this.writer.requireMatch(wake));
  }
}

@CommandHandler(SleepComputer)
export class SleepComputerHandler implements ICommandHandler<SleepComputer> {
  constructor(
    private readonly writer: ComputerWriter,
    private readonly computers: Computers,
    private readonly watch: ViewerWatch,
    private readonly clock: Clock,
  ) {}

  async execute(sleep: SleepComputer): Promise<Loaded<Computer>> {
    const { accountId, computerId, isForced } = sleep;
    await this.computers.load(computerId, accountId);
    if (!isForced && (await this.watch.isWatched(computerId)))
      throw new ProblemError('session_connected', 'A person sees the computer. Close their session, or force the sleep.');
    const deadlineAt = sleepDeadline(this.clock.now());
    return this.writer.write(sleep, { type: 'SleepComputer', accountId, depth: 'stopped', reason: 'requested', deadlineAt });
  }
}

@CommandHandler(DeleteComputer)
export class DeleteComputerHandler implements ICommandHandler<DeleteComputer> {
  constructor(
    private readonly writer: ComputerWriter,
    private readonly computers: Computers,
    private readonly commands: CommandBus,
  ) {}

  async execute(remove: DeleteComputer): Promise<Loaded<Computer> & { gone: boolean }> {
    const { context, accountId, computerId } = remove;
    const written = await this.writer.write(remove, { type: 'DeleteComputer', accountId });
    const goneAt = await this.computers.untilDeleted(computerId);
    if (goneAt === null) return { ...written, gone: false };
    // The caller's next creation may use the seat.
    await this.commands.execute(new ReleaseComputerSeat(context, accountId, computerId));
    return { ...written, position: goneAt, gone: true };
  }
}
