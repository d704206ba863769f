import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';

export const accountImagesTable = {
  key: 'id',
  columns: {
    /** The account's id and the image, separated by a slash. */
    id: 'text collate "C" not null',
    resolved_at: 'timestamptz(3) not null',
  },
  indexes: {},
} as const satisfies ProjectionTable;
