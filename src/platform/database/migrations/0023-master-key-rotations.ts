import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Creates the tables of rotations of the master key. During a rotation each of the two keys is stored encrypted with the other, so that a
 * process which knows either one learns the other. The new key is in an unlogged table, so that no copy of the write-ahead log, and no
 * backup that is made of files, has it under the old key.
 */
export class MasterKeyRotations1700000000023 implements MigrationInterface {
  name = 'MasterKeyRotations1700000000023';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.master_key_rotations (
        rotation_id text collate "C" primary key,
        old_key_id text not null,
        new_key_id text not null unique,
        old_wrapped bytea,
        requested_by jsonb not null,
        begun_at timestamptz(3) not null default now(),
        forgotten_at timestamptz(3),
        finished_at timestamptz(3)
      )`);
    await runner.query(
      `create unique index master_key_rotations_unfinished on public.master_key_rotations ((true)) where finished_at is null`,
    );
    await runner.query(`
      create unlogged table public.master_key_exchange (
        rotation_id text collate "C" primary key,
        new_wrapped bytea not null
      )`);
    await runner.query('alter table public.program_replicas add column master_key_id text');
    // The exchange is vacuumed after a rotation, which only the table's owner may do. Without the right to change the owner, autovacuum has to do.
    await runner.query(`
      do $$ begin
        if exists (select from pg_roles where rolname = 'mooring_app') then
          alter table public.master_key_exchange owner to mooring_app;
        end if;
      exception when insufficient_privilege then
        null;
      end $$`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('alter table public.program_replicas drop column master_key_id');
    await runner.query('drop table public.master_key_exchange, public.master_key_rotations');
  }
}
