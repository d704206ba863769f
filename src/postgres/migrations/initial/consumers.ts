/** The tables of the log's consumers: leases, read models and their rebuilds, sagas, states of streams, running programs. */
export const consumerTables = [
  `create table public.consumer_leases (
    name text collate "C" primary key,
    owner text not null,
    epoch bigint not null,
    expires_at timestamptz not null
  )`,
  // A read model is not filled if it was created after the log had begun and its first rebuild is not over: reads would wrongly return
  // nothing.
  `create table public.projections (
    name text collate "C" not null,
    version integer not null,
    -- Named after the version, so that programs of several versions keep their own side by side.
    table_name text not null,
    status text not null check (status in ('running', 'rebuilding', 'failed')),
    error text,
    updated_at timestamptz not null default now(),
    filled boolean not null default true,
    -- The last rebuild whose rows took their place here.
    rebuild_id uuid,
    -- It stopped at an event which only a newer program can read.
    outdated boolean not null default false,
    primary key (name, version)
  )`,
  `create table public.projection_checkpoints (
    table_name text collate "C" primary key,
    position text collate "C" not null,
    epoch bigint not null default 0
  )`,
  `create table public.projection_rebuilds (
    table_name text collate "C" primary key,
    id uuid not null,
    reason text not null check (reason in ('requested', 'version', 'empty', 'behind')),
    phase text not null check (phase in ('waiting', 'folding', 'writing', 'catching_up')),
    -- Of the lease's holder who works on it.
    epoch bigint not null,
    position text collate "C" not null,
    target text collate "C" not null,
    events bigint not null,
    events_per_second integer,
    started_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  )`,
  `create table public.saga_deadlines (
    saga text collate "C" not null,
    key text collate "C" not null,
    due_at timestamptz not null,
    primary key (saga, key)
  )`,
  // A cache of long streams' states, the latest of each stream and decider. It may be emptied at any time.
  `create table public.aggregate_snapshots (
    stream text collate "C" not null,
    decider text collate "C" not null,
    version integer not null,
    revision bigint not null,
    position text collate "C" not null,
    event_id uuid not null,
    account_id text collate "C",
    subject text collate "C",
    state json not null,
    derived_ids text collate "C" not null,
    taken_at timestamptz not null default now(),
    primary key (stream, decider)
  )`,
  'create index aggregate_snapshots_of_subject on public.aggregate_snapshots (subject)',
  // Facts that all services on this database share: the first service to state one decides.
  `create table public.installation (
    fact text collate "C" primary key,
    value text not null
  )`,
  `create table public.program_replicas (
    -- The application name of its database session, with which the announcement ends.
    owner text collate "C" primary key,
    program text not null,
    tables text[] not null,
    -- Event type → the newest version that it can read.
    catalogue json not null,
    started_at timestamptz(3) not null default now(),
    seen_at timestamptz(3) not null default now(),
    master_key_id text
  )`,
];
