import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Names the table of a read model after its version, so that programs of several versions keep their own side by side. An existing table is
 * renamed after its stored version and keeps its rows. Running programs also announce which tables they use and which events they can read.
 */
export class ReadModelVersions1700000000011 implements MigrationInterface {
  name = 'ReadModelVersions1700000000011';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(adopt);
    await runner.query('alter table public.projections drop constraint projections_pkey, add primary key (name, version)');
    // The column marks a read model that stopped at an event which only a newer program can read.
    await runner.query('alter table public.projections add column outdated boolean not null default false');
    await runner.query('truncate public.projection_rebuilds');
    await runner.query('alter table public.projection_rebuilds rename column projection to table_name');
    await runner.query(`
      create table public.program_replicas (
        -- The application name of its database session, with which the announcement ends.
        owner text collate "C" primary key,
        program text not null,
        tables text[] not null,
        -- Event type → the newest version that it can read.
        catalogue json not null,
        started_at timestamptz(3) not null default now(),
        seen_at timestamptz(3) not null default now()
      )`);
  }

  async down(): Promise<void> {
    throw new Error('older programs make their read models from the log: drop the tables of the newer ones and start');
  }
}

const adopt = `
  do $$
  declare
    p record;
    i record;
  begin
    -- What broken-off rebuilds left.
    for i in
      select t.tablename from pg_tables t, public.projections old
       where t.schemaname = 'public' and t.tablename ~ ('^' || old.table_name || '_[bv][0-9]+$')
    loop
      execute format('drop table public.%I', i.tablename);
      delete from public.projection_checkpoints where table_name = i.tablename;
    end loop;
    for p in select name, table_name, table_name || '_v' || version as physical from public.projections loop
      if to_regclass(format('public.%I', p.table_name)) is not null then
        for i in select indexname from pg_indexes where schemaname = 'public' and tablename = p.table_name loop
          execute format('alter index public.%I rename to %I', i.indexname, p.physical || substr(i.indexname, length(p.table_name) + 1));
        end loop;
        execute format('alter table public.%I rename to %I', p.table_name, p.physical);
      end if;
      update public.projection_checkpoints set table_name = p.physical where table_name = p.table_name;
      update public.projections set table_name = p.physical where name = p.name;
    end loop;
  end $$`;
