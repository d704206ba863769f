import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the progress of read-model rebuilds, which every replica can report, and marks the read models that are not filled yet. */
export class Rebuilds1700000000007 implements MigrationInterface {
  name = 'Rebuilds1700000000007';

  async up(runner: QueryRunner): Promise<void> {
    // A read model is not filled if it was created after the log had begun and its first rebuild is not over: reads would wrongly return
    // nothing.
    await runner.query(`
      alter table public.projections
        add column filled boolean not null default true,
        -- The last rebuild whose rows took their place here.
        add column rebuild_id uuid`);
    await runner.query(`
      create table public.projection_rebuilds (
        projection text collate "C" primary key,
        id uuid not null,
        reason text not null check (reason in ('requested', 'version', 'empty')),
        phase text not null check (phase in ('waiting', 'folding', 'writing', 'catching_up')),
        -- Of the lease's holder who works on it.
        epoch bigint not null,
        position text collate "C" not null,
        target text collate "C" not null,
        events bigint not null,
        events_per_second integer,
        started_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.projection_rebuilds');
    await runner.query('alter table public.projections drop column filled, drop column rebuild_id');
  }
}
