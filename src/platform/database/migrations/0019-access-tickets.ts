import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table of tickets, each of which stands for a credential in one request. */
export class AccessTickets1700000000019 implements MigrationInterface {
  name = 'AccessTickets1700000000019';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.access_tickets (
        -- SHA-256 of the ticket.
        hash bytea primary key,
        account_id text collate "C" not null,
        -- The only path for which the ticket is valid.
        path text not null,
        caller json not null,
        expires_at timestamptz not null
      )`);
    await runner.query('create index access_tickets_by_account on public.access_tickets (account_id)');
    await runner.query('create index access_tickets_by_expiry on public.access_tickets (expires_at)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.access_tickets');
  }
}
