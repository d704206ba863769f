/**
 * The tables of what the service knows of its callers besides the log. Sign-in data is kept apart from events so that it can be deleted:
 * addresses, password hashes, sessions, uses of keys. The requests' tables serve all replicas.
 */
export const callerTables = [
  `create table public.account_credentials (
    account_id text collate "C" primary key,
    -- Lower case, NFC.
    email text collate "C" not null unique,
    -- scrypt, with its parameters and a salt of its own.
    password text not null,
    created_at timestamptz(3) not null default now()
  )`,
  `create table public.account_sessions (
    -- SHA-256 of the token.
    token_hash bytea primary key,
    account_id text collate "C" not null,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
  )`,
  'create index account_sessions_by_account on public.account_sessions (account_id)',
  'create index account_sessions_by_expiry on public.account_sessions (expires_at)',
  `create table public.api_key_uses (
    key_id text collate "C" primary key,
    last_used_at timestamptz(3) not null
  )`,
  `create table public.source_credential_uses (
    account_id text collate "C" not null,
    kind text not null,
    host text collate "C" not null,
    last_used_at timestamptz(3) not null,
    primary key (account_id, kind, host)
  )`,
  `create table public.access_tickets (
    -- SHA-256 of the ticket.
    hash bytea primary key,
    account_id text collate "C" not null,
    -- The only path for which the ticket is valid.
    path text not null,
    caller json not null,
    expires_at timestamptz not null
  )`,
  'create index access_tickets_by_account on public.access_tickets (account_id)',
  'create index access_tickets_by_expiry on public.access_tickets (expires_at)',
  `create table public.idempotency_keys (
    account_id text collate "C" not null,
    -- SHA-256 of the caller's key.
    key_hash bytea not null,
    -- Stays the same over every try: what a handler makes derives its ids from it.
    id uuid not null,
    state text not null check (state in ('running', 'released', 'done')),
    -- The try that runs, and when it last said so.
    owner uuid not null,
    claimed_at timestamptz not null,
    -- Sealed: a fingerprint of the request (it may hold a password), and the first answer (it may hold a key).
    request json,
    answer json,
    created_at timestamptz not null,
    primary key (account_id, key_hash)
  )`,
  'create index idempotency_keys_by_age on public.idempotency_keys (created_at)',
  `create table public.rate_limits (
    key varchar(255) primary key,
    points integer not null default 0,
    expire bigint
  )`,
  // The cursors of subscriptions in the log, and the events that are to be sent to them, or were. A subscription itself is in the log.
  `create table public.subscription_cursors (
    subscription_id text collate "C" primary key,
    account_id text collate "C" not null,
    -- The position up to which the log was searched for events that the subscription wants.
    position text collate "C" not null,
    -- The revision of the subscription's stream up to which its orders were carried out.
    revision integer not null default -1,
    failing_since timestamptz(3)
  )`,
  `create table public.event_deliveries (
    subscription_id text collate "C" not null,
    event_id text collate "C" not null,
    position text collate "C" not null,
    agent_id text collate "C",
    type text not null,
    status text not null default 'pending',
    round integer not null default 0,
    attempts integer not null default 0,
    response_status integer,
    at timestamptz(3),
    next_attempt_at timestamptz(3),
    primary key (subscription_id, event_id)
  )`,
  'create index event_deliveries_by_position on public.event_deliveries (subscription_id, position desc)',
  `create index event_deliveries_pending on public.event_deliveries (subscription_id, position) where status = 'pending'`,
];
