import { CommandBus, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { ReleaseComputerSeat, TakeComputerSeat } from '../accounts/index.ts';
import { AllowLists } from '../agents/services.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { StreamClosed } from '../../eventsourcing/event-store/event-store.ts';
import { isGone, type Computer } from './aggregate/computer-state.rules.ts';
import type { ComputerSettings } from './aggregate/computers.events.ts';
import { Computers } from './aggregate/computers.service.ts';
import { CreateComputer, type CreateComputerResult, type ComputerRequest } from './computers.commands.ts';
import { NewComputers } from './new-computers.service.ts';

/** The request fails after this many computers that were deleted meanwhile or were created too late. */
const ATTEMPTS_MAX = 5;

/**
 * Takes the seat first and then creates the computer, each in one append. A crash between the two leaves a seat without a computer, which
 * the next attempt reuses or the saga `seats` releases.
 */
@CommandHandler(CreateComputer)
export class CreateComputerHandler implements ICommandHandler<CreateComputer> {
  constructor(
    private readonly computers: Computers,
    private readonly newComputers: NewComputers,
    private readonly allowLists: AllowLists,
    private readonly commands: CommandBus,
  ) {}

  async execute(create: CreateComputer): Promise<CreateComputerResult> {
    const { context, accountId, request, seed } = create;
    this.allowLists.refuseUnsupported(request.egress);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const wanted = seed === null ? uuidv7() : uuidv5(`computer ${attempt}`, seed);
      const computerId = await this.commands.execute(new TakeComputerSeat(context, accountId, wanted, request.endUserId));
      const made = await this.make(computerId, create);
      // A computer that an earlier attempt of this request created counts as created by this request.
      if (made !== null) return { ...made, isNew: made.isNew || (seed !== null && computerId === wanted) };
      await this.commands.execute(new ReleaseComputerSeat(context, accountId, computerId));
    }
    throw new ProblemError('event_store_unavailable', 'The computer could not be made in time; try again.', { retryAfterSeconds: 1 });
  }

  /**
   * Returns the computer that has the seat: the existing one, or the one made here. The first of several concurrent callers makes it for all of
   * them. Returns null if no computer can exist under that id any more; its seat must then be released.
   */
  private async make(computerId: string, { accountId, request, context }: CreateComputer): Promise<CreateComputerResult | null> {
    const { state: standing, ...version } = await this.computers.find(computerId);
    if (standing !== null && isGone(standing)) return this.waitUntilDeleted(computerId);
    if (standing !== null) return { computerId, computer: { ...version, state: standing }, isNew: refuseConflict(standing, request) };
    try {
      const computer = await this.newComputers.make(computerId, { accountId, request, context });
      const { state, events } = computer;
      if (isGone(state)) return await this.waitUntilDeleted(computerId);
      return { computerId, computer, isNew: events.length > 0 || refuseConflict(state, request) };
    } catch (error) {
      if (error instanceof StreamClosed) return null;
      throw error;
    }
  }

  /** Waits until the computer is deleted. */
  private async waitUntilDeleted(computerId: string): Promise<null> {
    if ((await this.computers.untilDeleted(computerId)) !== null) return null;
    throw new ProblemError('invalid_state', 'The computer of this end user is still being deleted.', { retryAfterSeconds: 5 });
  }
}

/** Returns false, for a computer that was not created here. Throws `computer_conflict` if the request names another size or screen. */
function refuseConflict({ settings }: Computer, { size, display }: ComputerRequest): false {
  const differs =
    (size !== undefined && size !== settings.size) ||
    (display !== undefined && (display.width !== settings.display.width || display.height !== settings.display.height));
  if (!differs) return false;
  const shown = (of: Pick<ComputerSettings, 'size' | 'display'>) => `${of.size} with ${of.display.width}x${of.display.height} pixels`;
  const asked = { size: size ?? settings.size, display: display ?? settings.display };
  throw new ProblemError('computer_conflict', `The end user has a computer already, and it is ${shown(settings)}, not ${shown(asked)}.`, {
    members: { size: settings.size, display: settings.display },
  });
}
