import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table of agents' last runs whose output is complete in the log, so that a restart need not read it again. */
export class DrainedRuns1700000000014 implements MigrationInterface {
  name = 'DrainedRuns1700000000014';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.drained_runs (
        agent_id text collate "C" primary key,
        -- The container, and when this run of it was started, as the engine tells both.
        handle text not null,
        started_at text not null
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.drained_runs');
  }
}
