import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Adds the times at which states began and last changed to their snapshots. Those without them are dropped: they are a cache. */
export class DatesOfStates1800000000002 implements MigrationInterface {
  name = 'DatesOfStates1800000000002';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('truncate public.aggregate_snapshots');
    // A program that does not know them can't write a snapshot, which it reports and does without.
    await runner.query(
      `alter table public.aggregate_snapshots
         add column created_at text collate "C" not null, add column changed_at text collate "C" not null`,
    );
  }

  async down(): Promise<void> {
    throw new Error('migrations are not taken back');
  }
}
