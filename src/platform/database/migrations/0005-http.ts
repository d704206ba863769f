import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Creates what the HTTP layer keeps between requests, for all replicas: first responses of idempotent requests, and rate-limit counters.
 */
export class Http1700000000005 implements MigrationInterface {
  name = 'Http1700000000005';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table public.idempotency_keys (
        account_id text collate "C" not null,
        -- SHA-256 of the caller's key.
        key_hash bytea not null,
        -- Stays the same over every try: what a handler makes derives its ids from it.
        id uuid not null,
        state text not null check (state in ('running', 'released', 'done')),
        -- The try that runs, and when it last said so.
        owner uuid not null,
        claimed_at timestamptz not null,
        -- Sealed: a fingerprint of the request (it may hold a password), and the first answer (it may hold a key).
        request json,
        answer json,
        created_at timestamptz not null,
        primary key (account_id, key_hash)
      )`);
    await runner.query('create index idempotency_keys_by_age on public.idempotency_keys (created_at)');
    await runner.query(`
      create table public.rate_limits (
        key varchar(255) primary key,
        points integer not null default 0,
        expire bigint
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table public.rate_limits, public.idempotency_keys');
  }
}
