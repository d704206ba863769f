import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the tables of the images that deployments in progress need, and of the last removal of those that nothing needs. */
export class ImageClaims1700000000024 implements MigrationInterface {
  name = 'ImageClaims1700000000024';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.image_claims (
        deployment_id text collate "C" primary key,
        agent_id text collate "C" not null,
        image text not null,
        claimed_at timestamptz(3) not null default now()
      )`);
    await runner.query(`
      create table public.image_sweeps (
        is_last boolean primary key default true check (is_last),
        ended_at timestamptz(3) not null,
        removed integer not null,
        removed_bytes bigint not null,
        refused integer not null
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.image_sweeps');
    await runner.query('drop table public.image_claims');
  }
}
