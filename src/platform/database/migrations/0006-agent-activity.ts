import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Creates the times at which agents were last used, and the processes that use them now. These are not events, so that an idle agent
 * appends nothing to the log, and a busy one little.
 */
export class AgentActivity1700000000006 implements MigrationInterface {
  name = 'AgentActivity1700000000006';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.agent_activity (
        agent_id text collate "C" primary key,
        last_active_at timestamptz(3) not null
      )`);
    await runner.query(`
      create table public.agent_holds (
        agent_id text collate "C" not null,
        -- The process that holds the agent awake.
        owner uuid not null,
        expires_at timestamptz not null,
        primary key (agent_id, owner)
      )`);
    await runner.query('create index agent_holds_by_expiry on public.agent_holds (expires_at)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.agent_holds, public.agent_activity');
  }
}
