import type { MigrationInterface } from 'typeorm';

import { Initial1800000000001 } from './0001-initial.ts';
import { DatesOfStates1800000000002 } from './0002-dates-of-states.ts';

/** The last 13 digits of the name of the first migration. What has a smaller number made the tables of programs before the first release. */
export const FIRST_MIGRATION = 1_800_000_000_001;

/**
 * The migrations in the order in which they run. Never edit a released migration: add one. Class names end with 13 digits, in ascending
 * order.
 */
export const migrations: (new () => MigrationInterface)[] = [Initial1800000000001, DatesOfStates1800000000002];
