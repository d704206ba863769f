/**
 * The tables of keys. During a rotation of the master key each of the two keys is stored encrypted with the other, so that a process which
 * knows either one learns the other. The new key is in an unlogged table, so that no copy of the write-ahead log, and no backup that is made
 * of files, has it under the old key.
 */
export const keyTables = [
  // Data keys, wrapped by the master key. A row whose key is null is the tombstone of a shredded subject.
  `create table public.data_keys (
    subject text collate "C" not null,
    version integer not null,
    kek_id text not null,
    wrapped bytea,
    created_at timestamptz not null default now(),
    shredded_at timestamptz,
    primary key (subject, version),
    check ((wrapped is null) = (shredded_at is not null))
  )`,
  `create table public.master_key_rotations (
    rotation_id text collate "C" primary key,
    old_key_id text not null,
    new_key_id text not null unique,
    old_wrapped bytea,
    requested_by jsonb not null,
    begun_at timestamptz(3) not null default now(),
    forgotten_at timestamptz(3),
    finished_at timestamptz(3)
  )`,
  'create unique index master_key_rotations_unfinished on public.master_key_rotations ((true)) where finished_at is null',
  `create unlogged table public.master_key_exchange (
    rotation_id text collate "C" primary key,
    new_wrapped bytea not null
  )`,
  // Shreds and rotations are followed by a vacuum, which only the table's owner may run. Without the right to change the owner, autovacuum
  // has to do.
  `do $$ begin
    if exists (select from pg_roles where rolname = 'mooring_app') then
      grant usage, create on schema public to mooring_app;
      alter table public.data_keys owner to mooring_app;
      alter table public.master_key_exchange owner to mooring_app;
    end if;
  exception when insufficient_privilege then
    null;
  end $$`,
];
