/** What a backup holds, in this order: the log, and what no event tells. The text is the order of the rows. */
export const keptTables: Readonly<Record<string, string>> = {
  es_event: 'position',
  es_log_event: 'position',
  es_stream_meta: 'stream',
  account_credentials: 'account_id',
  api_key_uses: 'key_id',
  agent_activity: 'agent_id',
};

/** Data keys, wrapped: in the backup, or in a file of their own. */
export const keyTable = 'data_keys';

/** What is made anew, or has no meaning in another life of the database: sign-ins, first answers, counts, consumers and their places. */
export const leftTables: readonly string[] = [
  'aggregate_snapshots',
  'account_sessions',
  'agent_holds',
  'consumer_leases',
  'drained_runs',
  'es_log_retention',
  'idempotency_keys',
  'installation',
  'program_replicas',
  'projection_checkpoints',
  'projection_rebuilds',
  'projections',
  'rate_limits',
  'saga_deadlines',
];

/** Of those: states and read models with their places in the log, and who consumes it. */
export const consumerTables: readonly string[] = [
  'aggregate_snapshots',
  'consumer_leases',
  'drained_runs',
  'program_replicas',
  'projection_checkpoints',
  'projection_rebuilds',
  'projections',
  'saga_deadlines',
];

/** Tables of the log, which refuse to be emptied. */
export const guardedTables: readonly string[] = ['es_event', 'es_log_event'];
