import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the tables of the connections to desktops, and of the browsers that opened their links. */
export class Viewers1700000000030 implements MigrationInterface {
  name = 'Viewers1700000000030';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.viewer_connections (
        connection_id text collate "C" primary key,
        session_id text collate "C" not null,
        computer_id text collate "C" not null,
        account_id text collate "C" not null,
        -- The replica that passes it on.
        owner text collate "C" not null,
        connected_at timestamptz not null,
        -- The owner renews it while the connection is open.
        seen_at timestamptz not null
      )`);
    await runner.query('create index viewer_connections_by_computer on public.viewer_connections (computer_id)');
    await runner.query(`
      create table public.viewer_browsers (
        session_id text collate "C" primary key,
        -- SHA-256 of the cookie of the browser that opened the link first.
        cookie_hash bytea not null,
        last_input_at timestamptz,
        -- The time at which the session expires.
        expires_at timestamptz not null
      )`);
    await runner.query('create index viewer_browsers_by_expiry on public.viewer_browsers (expires_at)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.viewer_connections, public.viewer_browsers');
  }
}
