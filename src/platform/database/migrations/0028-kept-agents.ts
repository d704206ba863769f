import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Adds the time until which an agent counts as used although nobody uses it. */
export class KeptAgents1700000000028 implements MigrationInterface {
  name = 'KeptAgents1700000000028';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('alter table public.agent_activity add column kept_until timestamptz');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('alter table public.agent_activity drop column kept_until');
  }
}
