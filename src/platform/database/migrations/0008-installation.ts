import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the facts that all services on this database share: the first service to state one decides. */
export class Installation1700000000008 implements MigrationInterface {
  name = 'Installation1700000000008';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.installation (
        fact text collate "C" primary key,
        value text not null
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.installation');
  }
}
