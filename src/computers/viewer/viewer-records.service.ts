import { Injectable } from '@nestjs/common';

import type { CommandContext } from '../../platform/context/command-context.ts';
import { Aggregates } from '../../platform/event-store/aggregates.ts';
import { isHumanInControl, viewersDecider, type ViewersCommand, type ViewersState } from './viewers.decider.ts';

/** Records the sessions of computers and their connections, and knows their states. */
@Injectable()
export class ViewerRecords {
  constructor(private readonly aggregates: Aggregates) {}

  /** Returns the newest state of the computer's sessions. */
  async load(computerId: string): Promise<ViewersState> {
    return (await this.aggregates.load(streamOf(computerId), viewersDecider)).state;
  }

  /** Executes the command and returns the state after it. Throws the refusals of the decider. */
  async execute(computerId: string, command: ViewersCommand, context: CommandContext): Promise<ViewersState> {
    return (await this.aggregates.execute(streamOf(computerId), viewersDecider, command, context)).state;
  }

  /** Returns true while somebody is connected who controls the computer alone, so that nobody else may act on it. */
  async inControl(computerId: string): Promise<boolean> {
    return isHumanInControl(await this.load(computerId));
  }
}

function streamOf(computerId: string): string {
  return `viewer-${computerId}`;
}
