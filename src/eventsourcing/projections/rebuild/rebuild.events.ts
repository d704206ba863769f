import { defineEvent, type EventsOf } from '../../event-store/event-definition.ts';

export const rebuildEvents = {
  ProjectionRebuildRequested: defineEvent<{ rebuild_id: string }>()(
    'ProjectionRebuildRequested',
    () => 'Asked for the read model to be made anew from the log',
  ),
  ProjectionRebuildCanceled: defineEvent<{ rebuild_id: string }>()(
    'ProjectionRebuildCanceled',
    () => 'Canceled the rebuild of the read model; the rows that stood go on serving',
  ),
  ProjectionRebuilt: defineEvent<{ rebuild_id: string }>()(
    'ProjectionRebuilt',
    () => 'The read model made anew took the place of the old one',
  ),
  ProjectionRebuildFailed: defineEvent<{ rebuild_id: string; reason: string }>()(
    'ProjectionRebuildFailed',
    ({ reason }) => `The rebuild of the read model failed: ${reason}`,
  ),
  ProjectionVerified: defineEvent<{ position: string; equal: boolean; differences: number }>()(
    'ProjectionVerified',
    ({ equal, differences }) => `Compared the read model with the log: ${equal ? 'they are equal' : `${differences} rows differ at least`}`,
  ),
};

export type RebuildEvent = EventsOf<typeof rebuildEvents>;
