import { Query } from '@nestjs/cqrs';

import type { LogLevel } from '../output/logs.events.ts';
import type { LogEntry } from './logs.table.ts';

export interface LogFilter {
  level?: LogLevel;
  /** The earliest time, inclusive. */
  since?: Date;
  /** The latest time, exclusive. */
  until?: Date;
  /** A text that the message contains, in upper or lower case. */
  q?: string;
}

/** Returns the newest entries of an agent, oldest first. */
export class ListLogEntries extends Query<LogEntry[]> {
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
