import type { MigrationInterface, QueryRunner } from 'typeorm';

import { callerTables } from './initial/callers.ts';
import { consumerTables } from './initial/consumers.ts';
import { eventLog } from './initial/event-log.ts';
import { guards } from './initial/guards.ts';
import { keyTables } from './initial/keys.ts';
import { logRetention } from './initial/log-retention.ts';
import { sandboxTables } from './initial/sandboxes.ts';

/** Creates all tables and functions but those of read models, which services make themselves. */
export class Initial1800000000001 implements MigrationInterface {
  name = 'Initial1800000000001';

  async up(runner: QueryRunner): Promise<void> {
    for (const statement of [...eventLog(), ...logRetention(), guards, ...consumerTables, ...keyTables, ...callerTables, ...sandboxTables])
      await runner.query(statement);
  }

  async down(): Promise<void> {
    throw new Error('events are never dropped');
  }
}
