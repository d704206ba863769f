/** A running rebuild of a read model. */
export class RebuildDto {
  id: string;
  /** The reason: an administrator requested it, its version changed, its rows were missing, or it was far behind the log. */
  reason: 'requested' | 'version' | 'empty' | 'behind';
  phase: 'waiting' | 'folding' | 'writing' | 'catching_up';
  /** The share of the log that is folded, 0 to 1. */
  progress: number;
  /** The value is null before the fold begins. */
  events_per_second: number | null;
  /** The time at which the fold will end at this rate, ISO 8601; null if that is not known yet. */
  eta: string | null;
  started_at: string;
}

export class ProjectionDto {
  name: string;
  version: number;
  /** The position up to which all events are in its rows. */
  position: string;
  /** The last position of its log. */
  head: string;
  /** The number of events that it has not read yet. */
  lag_events: number;
  /** The age of the oldest of these events, in seconds. */
  lag_seconds: number;
  status: 'running' | 'rebuilding' | 'failed';
  /** The error that stopped it; null if none did. */
  error: string | null;
  /** The value is false while rows are missing: reads answer 503 until they are rebuilt. */
  filled: boolean;
  rebuild: RebuildDto | null;
}

export class RebuildStartedDto {
  rebuild_id: string;
}

export class DifferenceDto {
  /** The key of the row. */
  key: string;
  /** The kind is `missing` if the log has the row but the table does not, and `unexpected` if only the table has it. */
  kind: 'missing' | 'unexpected' | 'different';
  /** The names of the columns that differ, without their values. */
  columns: string[];
}

export class VerificationDto {
  equal: boolean;
  /** The position at which both sides were compared. */
  position: string;
  /** The number of rows in the current table. */
  rows: number;
  /** The first 100 differences. */
  differences: DifferenceDto[];
}
