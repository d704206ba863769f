import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table of data keys, wrapped by the master key. A row whose key is null is the tombstone of a shredded subject. */
export class DataKeys1700000000003 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table data_keys (
        subject text collate "C" not null,
        version integer not null,
        kek_id text not null,
        wrapped bytea,
        created_at timestamptz not null default now(),
        shredded_at timestamptz,
        primary key (subject, version),
        check ((wrapped is null) = (shredded_at is not null))
      )`);
    // A shred is followed by a vacuum, which only the table's owner may run. Without the right to change the owner, autovacuum has to do.
    await runner.query(`
      do $$ begin
        if exists (select from pg_roles where rolname = 'mooring_app') then
          grant usage, create on schema public to mooring_app;
          alter table data_keys owner to mooring_app;
        end if;
      exception when insufficient_privilege then
        null;
      end $$`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table data_keys');
  }
}
