import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the leases of the log's consumers, the checkpoints of read models, and the deadlines of sagas. */
export class Consumers1700000000002 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table consumer_leases (
        name text collate "C" primary key,
        owner text not null,
        epoch bigint not null,
        expires_at timestamptz not null
      )`);
    await runner.query(`
      create table projections (
        name text collate "C" primary key,
        version integer not null,
        table_name text not null,
        status text not null check (status in ('running', 'rebuilding', 'failed')),
        error text,
        updated_at timestamptz not null default now()
      )`);
    await runner.query(`
      create table projection_checkpoints (
        table_name text collate "C" primary key,
        position text collate "C" not null,
        epoch bigint not null default 0
      )`);
    await runner.query(`
      create table saga_deadlines (
        saga text collate "C" not null,
        key text collate "C" not null,
        due_at timestamptz not null,
        primary key (saga, key)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table saga_deadlines, projection_checkpoints, projections, consumer_leases');
  }
}
