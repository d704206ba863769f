import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table of the attempts to make an image available that have begun and not ended. */
export class ImageAttempts1700000000027 implements MigrationInterface {
  name = 'ImageAttempts1700000000027';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.image_attempts (
        deployment_id text collate "C" primary key,
        begun integer not null,
        begun_at timestamptz(3) not null default now()
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.image_attempts');
  }
}
