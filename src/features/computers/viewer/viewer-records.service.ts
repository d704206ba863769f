import { Injectable } from '@nestjs/common';

import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import type { Position } from '../../../eventsourcing/event-store/event-store.ts';
import { EventWaits } from '../../../eventsourcing/log/event-waits.ts';
import type { ControlWatch } from '../live/viewer-control.service.ts';
import { isHumanInControl, viewersDecider, type ViewersCommand, type ViewersState } from './viewers.decider.ts';

/** The longest wait for a person who takes control, in ms. Batches of actions end earlier. */
const WATCH_TIMEOUT_MS = 600_000;

/** Records the sessions of computers and their connections, and loads their states. */
@Injectable()
export class ViewerRecords implements ControlWatch {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly waits: EventWaits,
  ) {}

  /** Returns the newest state of the computer's sessions. See `Aggregates.load` for `upTo`. */
  async load(computerId: string, upTo?: Position): Promise<ViewersState> {
    return (await this.aggregates.load(streamOf(computerId), viewersDecider, upTo)).state;
  }

  /** Executes the command and returns the state after it. Throws the refusals of the decider. */
  async execute(computerId: string, command: ViewersCommand, context: CommandContext): Promise<ViewersState> {
    return (await this.aggregates.execute(streamOf(computerId), viewersDecider, command, context)).state;
  }

  /** Returns whether a viewer with exclusive control is connected, so that nobody else may act on the computer. */
  async inControl(computerId: string, upTo?: Position): Promise<boolean> {
    return isHumanInControl(await this.load(computerId, upTo));
  }

  /** Resolves with true once a viewer with exclusive control is connected; with false if the signal aborts before that. */
  async untilInControl(computerId: string, signal: AbortSignal): Promise<boolean> {
    const isSo = async () => ((await this.inControl(computerId)) ? true : undefined);
    return (await this.waits.until(streamOf(computerId), isSo, { timeoutMs: WATCH_TIMEOUT_MS, signal })) ?? false;
  }
}

function streamOf(computerId: string): string {
  return `viewer-${computerId}`;
}
