import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Allows a read model to be rebuilt because it was far behind the log. */
export class RebuildReasons1700000000013 implements MigrationInterface {
  name = 'RebuildReasons1700000000013';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      alter table public.projection_rebuilds
        drop constraint projection_rebuilds_reason_check,
        add constraint projection_rebuilds_reason_check check (reason in ('requested', 'version', 'empty', 'behind'))`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`delete from public.projection_rebuilds where reason = 'behind'`);
    await runner.query(`
      alter table public.projection_rebuilds
        drop constraint projection_rebuilds_reason_check,
        add constraint projection_rebuilds_reason_check check (reason in ('requested', 'version', 'empty'))`);
  }
}
