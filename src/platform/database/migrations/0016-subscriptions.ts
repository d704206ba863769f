import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Creates the cursors of subscriptions in the log, and the events that are to be sent to them, or were. A subscription itself is in the log and
 * in its read model.
 */
export class Subscriptions1700000000016 implements MigrationInterface {
  name = 'Subscriptions1700000000016';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.subscription_cursors (
        subscription_id text collate "C" primary key,
        account_id text collate "C" not null,
        -- The position up to which the log was searched for events that the subscription wants.
        position text collate "C" not null,
        -- The revision of the subscription's stream up to which its orders were carried out.
        revision integer not null default -1,
        failing_since timestamptz(3)
      )`);
    await runner.query(`
      create table public.event_deliveries (
        subscription_id text collate "C" not null,
        event_id text collate "C" not null,
        position text collate "C" not null,
        agent_id text collate "C",
        type text not null,
        status text not null default 'pending',
        round integer not null default 0,
        attempts integer not null default 0,
        response_status integer,
        at timestamptz(3),
        next_attempt_at timestamptz(3),
        primary key (subscription_id, event_id)
      )`);
    await runner.query('create index event_deliveries_by_position on public.event_deliveries (subscription_id, position desc)');
    await runner.query(
      `create index event_deliveries_pending on public.event_deliveries (subscription_id, position) where status = 'pending'`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.event_deliveries, public.subscription_cursors');
  }
}
