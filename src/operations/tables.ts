/** The tables of a backup, in order: the log, and the tables that no event records. The value is the order of the rows. */
export const backedUpTables: Readonly<Record<string, string>> = {
  es_event: 'position',
  es_log_event: 'position',
  es_stream_meta: 'stream',
  account_credentials: 'account_id',
  api_key_uses: 'key_id',
  source_credential_uses: 'account_id, kind, host',
  agent_activity: 'agent_id',
  custom_file_contents: 'agent_id, content_id',
  subscription_cursors: 'subscription_id',
  event_deliveries: 'subscription_id, event_id',
  viewer_browsers: 'session_id',
};

/** The table of the wrapped data keys, which are in the backup or in a separate file. */
export const keyTable = 'data_keys';

/**
 * The tables that a backup omits, because they are rebuilt or mean nothing in a restored database: sign-ins, stored responses, counts,
 * consumers and their positions.
 */
export const excludedTables: readonly string[] = [
  'access_tickets',
  'aggregate_snapshots',
  'account_sessions',
  'agent_holds',
  'computer_memory',
  'consumer_leases',
  'desktop_turns',
  'drained_runs',
  'es_log_retention',
  'idempotency_keys',
  'image_attempts',
  'image_claims',
  'image_sweeps',
  'installation',
  'master_key_exchange',
  'master_key_rotations',
  'program_replicas',
  'projection_checkpoints',
  'projection_rebuilds',
  'projections',
  'rate_limits',
  'saga_deadlines',
  'viewer_connections',
];

/** The omitted tables of states, of read models with their positions, and of the consumers of the log. */
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

/** The tables of the log, which refuse to be truncated. */
export const guardedTables: readonly string[] = ['es_event', 'es_log_event'];
