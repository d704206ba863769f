import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table of the contents of custom files, which are too large for events. */
export class CustomFileContents1700000000026 implements MigrationInterface {
  name = 'CustomFileContents1700000000026';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.custom_file_contents (
        agent_id text collate "C" not null,
        content_id text collate "C" not null,
        sealed json not null,
        stored_at timestamptz(3) not null default now(),
        primary key (agent_id, content_id)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.custom_file_contents');
  }
}
