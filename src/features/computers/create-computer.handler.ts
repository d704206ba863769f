import { CommandBus, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { ReleaseComputerSeat, TakeComputerSeat } from '../accounts/index.ts';
import { AllowLists } from '../agents/services.ts';
import { Refusal } from '../../kernel/errors/refusal.ts';
import { StreamClosed } from '../../eventsourcing/event-store/event-store.ts';
import { isGone, type Computer } from './aggregate/computer-state.decider.ts';
import type { ComputerSettings } from './aggregate/computers.events.ts';
import { Computers } from './aggregate/computers.service.ts';
import { CreateComputer, type ComputerMade, type ComputerRequest } from './computers.commands.ts';
import { NewComputers } from './new-computers.service.ts';

/** The request fails after this many computers that were deleted meanwhile or were created too late. */
const ATTEMPTS = 5;
/** The longest wait for the deletion of the end user's former computer, in ms. */
const GONE_WITHIN_MS = 30_000;

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

  async execute(create: CreateComputer): Promise<ComputerMade> {
    const { context, accountId, request, seed } = create;
    this.allowLists.refuseUnheld(request.egress);
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const wanted = seed === null ? uuidv7() : uuidv5(`computer ${attempt}`, seed);
      const computerId = await this.commands.execute(new TakeComputerSeat(context, accountId, wanted, request.endUserId));
      const made = await this.make(computerId, create);
      // A computer that an earlier attempt of this request created counts as created by this request.
      if (made !== null) return { ...made, made: made.made || (seed !== null && computerId === wanted) };
      await this.commands.execute(new ReleaseComputerSeat(context, accountId, computerId));
    }
    throw new Refusal('event_store_unavailable', 'The computer could not be made in time; try again.', { retryAfterSeconds: 1 });
  }

  /**
   * Returns the computer that has the seat: the existing one, or the one made here. The first of several concurrent callers makes it for all of
   * them. Returns null if no computer can exist under that id any more; its seat must then be released.
   */
  private async make(computerId: string, { accountId, request, context }: CreateComputer): Promise<ComputerMade | null> {
    const { state: standing, ...version } = await this.computers.find(computerId);
    if (standing !== null && isGone(standing)) return this.gone(computerId);
    if (standing !== null) return { computerId, computer: { ...version, state: standing }, made: isLike(standing, request) };
    try {
      const computer = await this.newComputers.make(computerId, { accountId, request, context });
      const { state, events } = computer;
      if (isGone(state)) return await this.gone(computerId);
      return { computerId, computer, made: events.length > 0 || isLike(state, request) };
    } catch (error) {
      if (error instanceof StreamClosed) return null;
      throw error;
    }
  }

  /** Waits until the computer is deleted. */
  private async gone(computerId: string): Promise<null> {
    const isDeleted = async () => ((await this.computers.find(computerId)).state?.status === 'deleted' ? true : undefined);
    if ((await this.computers.until(computerId, isDeleted, { timeoutMs: GONE_WITHIN_MS })) !== null) return null;
    throw new Refusal('invalid_state', 'The computer of this end user is still being deleted.', { retryAfterSeconds: 5 });
  }
}

/** Returns false, for a computer that was not created here. Throws `computer_conflict` if the request names another size or screen. */
function isLike({ settings }: Computer, { size, display }: ComputerRequest): false {
  const differs =
    (size !== undefined && size !== settings.size) ||
    (display !== undefined && (display.width !== settings.display.width || display.height !== settings.display.height));
  if (!differs) return false;
  const shown = (of: Pick<ComputerSettings, 'size' | 'display'>) => `${of.size} with ${of.display.width}x${of.display.height} pixels`;
  const asked = { size: size ?? settings.size, display: display ?? settings.display };
  throw new Refusal('computer_conflict', `The end user has a computer already, and it is ${shown(settings)}, not ${shown(asked)}.`, {
    members: { size: settings.size, display: settings.display },
  });
}
