/** A read model that is being made anew. */
export class RebuildView {
  id: string;
  /** Why: somebody asked, its version changed, its rows were missing, or it was far behind the log. */
  reason: 'requested' | 'version' | 'empty' | 'behind';
  phase: 'waiting' | 'folding' | 'writing' | 'catching_up';
  /** How much of the log is folded, 0 to 1. */
  progress: number;
  /** Null until it folds. */
  events_per_second: number | null;
  /** When the fold will have come to its end at this rate, ISO 8601; null where that can't be told yet. */
  eta: string | null;
  started_at: string;
}

export class ProjectionView {
  name: string;
  version: number;
  /** Everything up to here is in its rows. */
  position: string;
  /** Where its log ends. */
  head: string;
  /** Events that it has not looked at. */
  lag_events: number;
  /** Age of the oldest of them. */
  lag_seconds: number;
  status: 'running' | 'rebuilding' | 'failed';
  /** What stopped it. */
  error: string | null;
  /** False while rows are missing that were there to be read: reads answer 503 until they are back. */
  filled: boolean;
  rebuild: RebuildView | null;
}

export class RebuildStarted {
  rebuild_id: string;
}

export class DifferenceView {
  /** Of the row. */
  key: string;
  /** `missing`: not in the table though the log says so; `unexpected`: in the table alone. */
  kind: 'missing' | 'unexpected' | 'different';
  /** The columns that differ; their values are not told. */
  columns: string[];
}

export class VerificationView {
  equal: boolean;
  /** The position at which both were compared. */
  position: string;
  /** Rows in the table that serves. */
  rows: number;
  /** The first 100. */
  differences: DifferenceView[];
}
