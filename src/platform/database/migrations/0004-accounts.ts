import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Creates the sign-in data, which is kept apart from events so that it can be deleted: addresses, password hashes, sessions, uses of keys.
 */
export class Accounts1700000000004 implements MigrationInterface {
  name = 'Accounts1700000000004';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.account_credentials (
        account_id text collate "C" primary key,
        -- Lower case, NFC.
        email text collate "C" not null unique,
        -- scrypt, with its parameters and a salt of its own.
        password text not null,
        created_at timestamptz(3) not null default now()
      )`);
    await runner.query(`
      create table public.account_sessions (
        -- SHA-256 of the token.
        token_hash bytea primary key,
        account_id text collate "C" not null,
        created_at timestamptz(3) not null default now(),
        last_used_at timestamptz(3) not null default now(),
        expires_at timestamptz(3) not null
      )`);
    await runner.query('create index account_sessions_by_account on public.account_sessions (account_id)');
    await runner.query('create index account_sessions_by_expiry on public.account_sessions (expires_at)');
    await runner.query(`
      create table public.api_key_uses (
        key_id text collate "C" primary key,
        last_used_at timestamptz(3) not null
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.api_key_uses, public.account_sessions, public.account_credentials');
  }
}
