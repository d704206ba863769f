import { defineEvent, type EventsOf } from '../platform/event-store/event-definition.ts';

export type LogLevel = 'info' | 'warning' | 'error';

/** A line of a container's output, as events carry it: short names, since there are many. */
export type CapturedLine = {
  /** ISO 8601 UTC, milliseconds, the engine's clock. */
  t: string;
  l: LogLevel;
  m: string;
};

/** How far a container's output is in the log: lines up to and with `time`, of which `count` bore that same time. */
export type CaptureCursor = { generation: number; time: string; count: number };

export const logEvents = {
  /** `total`: the agent's lines up to and with these, since its first. */
  LogLinesCaptured: defineEvent<{ lines: CapturedLine[]; cursor: CaptureCursor; total?: number }>()(
    'LogLinesCaptured',
    ({ lines }) => `Captured ${lines.length} lines of output`,
  ),
};

export type LogEvent = EventsOf<typeof logEvents>;
