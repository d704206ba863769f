import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Adds the memory that computers take of the machine. */
export class ComputerMemory1700000000029 implements MigrationInterface {
  name = 'ComputerMemory1700000000029';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.computer_memory (
        sandbox_id text collate "C" primary key,
        account_id text collate "C" not null,
        mb integer not null,
        taken_at timestamptz not null,
        reserved_until timestamptz
      )`);
    await runner.query('create index computer_memory_by_account on public.computer_memory (account_id)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.computer_memory');
  }
}
