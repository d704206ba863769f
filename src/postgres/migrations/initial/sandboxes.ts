/** The tables of agents and computers besides the log: their use, which appends nothing to the log, their images, and large contents. */
export const sandboxTables = [
  `create table public.agent_activity (
    agent_id text collate "C" primary key,
    last_active_at timestamptz(3) not null,
    -- The time until which an agent counts as used although nobody uses it.
    kept_until timestamptz
  )`,
  `create table public.agent_holds (
    agent_id text collate "C" not null,
    -- The process that holds the agent awake.
    owner uuid not null,
    expires_at timestamptz not null,
    primary key (agent_id, owner)
  )`,
  'create index agent_holds_by_expiry on public.agent_holds (expires_at)',
  // Agents' last runs whose output is complete in the log, so that a restart need not read it again.
  `create table public.drained_runs (
    agent_id text collate "C" primary key,
    -- The container, and when this run of it was started, as the engine tells both.
    handle text not null,
    started_at text not null
  )`,
  // The images that deployments in progress need.
  `create table public.image_claims (
    deployment_id text collate "C" primary key,
    agent_id text collate "C" not null,
    image text not null,
    claimed_at timestamptz(3) not null default now()
  )`,
  // The last removal of images that nothing needs.
  `create table public.image_sweeps (
    is_last boolean primary key default true check (is_last),
    ended_at timestamptz(3) not null,
    removed integer not null,
    removed_bytes bigint not null,
    refused integer not null
  )`,
  // The attempts to make an image available that have begun and not ended.
  `create table public.image_attempts (
    deployment_id text collate "C" primary key,
    begun integer not null,
    begun_at timestamptz(3) not null default now()
  )`,
  // The contents of custom files, which are too large for events.
  `create table public.custom_file_contents (
    agent_id text collate "C" not null,
    content_id text collate "C" not null,
    sealed json not null,
    stored_at timestamptz(3) not null default now(),
    primary key (agent_id, content_id)
  )`,
  // The memory that computers take of the machine.
  `create table public.computer_memory (
    sandbox_id text collate "C" primary key,
    account_id text collate "C" not null,
    mb integer not null,
    taken_at timestamptz not null,
    reserved_until timestamptz
  )`,
  'create index computer_memory_by_account on public.computer_memory (account_id)',
  // The replicas that may put input into desktops, and what the input was left like by the last one.
  `create table public.desktop_turns (
    computer_id text collate "C" primary key,
    owner text collate "C" not null,
    is_held boolean not null,
    -- The container's.
    generation integer not null,
    x integer,
    y integer,
    buttons integer not null default 0
  )`,
  // The connections to desktops, and the browsers that opened their links.
  `create table public.viewer_connections (
    connection_id text collate "C" primary key,
    session_id text collate "C" not null,
    computer_id text collate "C" not null,
    account_id text collate "C" not null,
    -- The replica that passes it on.
    owner text collate "C" not null,
    connected_at timestamptz not null,
    -- The owner renews it while the connection is open.
    seen_at timestamptz not null
  )`,
  'create index viewer_connections_by_computer on public.viewer_connections (computer_id)',
  `create table public.viewer_browsers (
    session_id text collate "C" primary key,
    -- SHA-256 of the cookie of the browser that opened the link first.
    cookie_hash bytea not null,
    last_input_at timestamptz,
    -- The time at which the session expires.
    expires_at timestamptz not null
  )`,
  'create index viewer_browsers_by_expiry on public.viewer_browsers (expires_at)',
];
