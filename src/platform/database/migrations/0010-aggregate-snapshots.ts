import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the cache of long streams' states, the latest of each stream and decider. It may be emptied at any time. */
export class AggregateSnapshots1700000000010 implements MigrationInterface {
  name = 'AggregateSnapshots1700000000010';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.aggregate_snapshots (
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
      )`);
    await runner.query('create index aggregate_snapshots_of_subject on public.aggregate_snapshots (subject)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.aggregate_snapshots');
  }
}
