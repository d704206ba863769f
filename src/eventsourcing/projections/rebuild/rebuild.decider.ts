import type { Decider } from '../../event-store/event-definition.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { RebuildEvent } from './rebuild.events.ts';

/**
 * The rebuild orders for one version of a projection, from its stream `projection-<table>`. Programs of two versions rebuild their tables
 * independently.
 */
export interface RebuildState {
  /** The rebuild that is ordered and has not ended. */
  running: string | null;
}

export type RebuildCommand =
  | { type: 'RequestRebuild'; rebuildId: string }
  | { type: 'CancelRebuild' }
  | { type: 'RecordRebuilt'; rebuildId: string }
  | { type: 'RecordFailure'; rebuildId: string; reason: string }
  | { type: 'RecordVerification'; position: string; equal: boolean; differences: number };

export const rebuildDecider: Decider<RebuildState, RebuildCommand, RebuildEvent> = {
  initialState: () => ({ running: null }),
  decide(command, { running }) {
    switch (command.type) {
      case 'RequestRebuild':
        // A request during a rebuild gets the running one.
        return running === null ? [{ type: 'ProjectionRebuildRequested', data: { rebuild_id: command.rebuildId } }] : [];
      case 'CancelRebuild':
        if (running === null) throw new ProblemError('invalid_state', 'No rebuild of this projection is running.');
        return [{ type: 'ProjectionRebuildCanceled', data: { rebuild_id: running } }];
      case 'RecordRebuilt':
        return running === command.rebuildId ? [{ type: 'ProjectionRebuilt', data: { rebuild_id: running } }] : [];
      case 'RecordFailure':
        return running === command.rebuildId
          ? [{ type: 'ProjectionRebuildFailed', data: { rebuild_id: running, reason: command.reason } }]
          : [];
      case 'RecordVerification': {
        const { position, equal, differences } = command;
        return [{ type: 'ProjectionVerified', data: { position, equal, differences } }];
      }
    }
  },
  evolve(state, event) {
    switch (event.type) {
      case 'ProjectionRebuildRequested':
        return { running: event.data.rebuild_id };
      case 'ProjectionRebuildCanceled':
      case 'ProjectionRebuilt':
      case 'ProjectionRebuildFailed':
        return { running: null };
      case 'ProjectionVerified':
        return state;
      default:
        event satisfies never;
        return state;
    }
  },
};

/** Returns the stream of the rebuild orders for the read model in that table (`tableOf`). */
export function rebuildStream(table: string): string {
  return `projection-${table}`;
}
