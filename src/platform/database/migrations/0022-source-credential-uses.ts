import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table of the last uses of source credentials, which are no events. */
export class SourceCredentialUses1700000000022 implements MigrationInterface {
  name = 'SourceCredentialUses1700000000022';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.source_credential_uses (
        account_id text collate "C" not null,
        kind text not null,
        host text collate "C" not null,
        last_used_at timestamptz(3) not null,
        primary key (account_id, kind, host)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.source_credential_uses');
  }
}
