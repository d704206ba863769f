import { Query } from '@nestjs/cqrs';

import type { LogLevel } from '../output/logs.events.ts';
import type { LogEntry } from './logs.table.ts';

export interface LogFilter {
  level?: LogLevel;
  /** The earliest time, inclusive. */
  since?: Date;
  /** The latest time, exclusive. */
  until?: Date;
  /** A text that the message or the fields contain, in upper or lower case. */
  q?: string;
}

/** Returns the form that a text has within the strings of JSON. */
export function withinJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

export interface LogPage {
  /** The entries, oldest first. */
  entries: LogEntry[];
  /** The time and id of the oldest one, if there may be earlier entries, else null. */
  earlierBefore: readonly [string, string] | null;
}

/** Returns the newest entries of an agent. A page ends when its entries reach 1 MiB. */
export class ListLogEntries extends Query<LogPage> {
  constructor(
    readonly agentId: string,
    readonly filter: LogFilter,
    readonly limit: number,
    /** The time and id of the entry before which the page ends. */
    readonly before: readonly [string, string] | null,
  ) {
    super();
  }
}
