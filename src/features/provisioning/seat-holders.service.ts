import { Injectable } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';

import { ReleaseComputerSeat, ReleaseSeat } from '../accounts/index.ts';
import { Agents } from '../agents/services.ts';
import { Computers } from '../computers/services.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { ownerOf } from '../../sandboxes/index.ts';

/** The holder of a seat. */
export interface SeatHolder {
  accountId: string;
  isDeleted: boolean;
}

/** Finds the agents and computers that have seats, by their sandbox ids. */
@Injectable()
export class SeatHolders {
  constructor(
    private readonly agents: Agents,
    private readonly computers: Computers,
    private readonly commands: CommandBus,
  ) {}

  /** Returns null if the agent or computer was never created. */
  async find(sandboxId: string): Promise<SeatHolder | null> {
    const owner = ownerOf(sandboxId);
    const { state } = await ('agent_id' in owner ? this.agents.find(owner.agent_id) : this.computers.find(owner.computer_id));
    return state && { accountId: state.accountId, isDeleted: state.status === 'deleted' };
  }

  /** Closes the stream, so that nothing can be created under the id any more. Throws `WrongExpectedRevision` if something was. */
  async close(sandboxId: string): Promise<void> {
    const owner = ownerOf(sandboxId);
    if ('agent_id' in owner) await this.agents.close(owner.agent_id, 'no_stream');
    else await this.computers.close(owner.computer_id, 'no_stream');
  }

  async release(sandboxId: string, accountId: string): Promise<void> {
    const owner = ownerOf(sandboxId);
    const context = systemContext('seats', accountId);
    if ('agent_id' in owner) await this.commands.execute(new ReleaseSeat(context, accountId, owner.agent_id));
    else await this.commands.execute(new ReleaseComputerSeat(context, accountId, owner.computer_id));
  }
}
