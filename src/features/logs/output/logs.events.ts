import { defineEvent, type EventsOf } from '../../../eventsourcing/event-store/event-definition.ts';

export type LogLevel = 'info' | 'warning' | 'error';

/** A line of a container's output in an event. The names are short, because there are many lines. */
export type CapturedLine = {
  /** The time of the engine's clock, in ISO 8601 UTC with milliseconds. */
  t: string;
  l: LogLevel;
  m: string;
};

/** The place up to which a container's output is in the log: all lines up to and including `time`, of which `count` have that same time. */
export type CaptureCursor = { generation: number; time: string; count: number };

export const logEvents = {
  /** The `total` is the number of the agent's lines up to and including these, since its first. */
  LogLinesCaptured: defineEvent<{ lines: CapturedLine[]; cursor: CaptureCursor; total?: number }>()(
    'LogLinesCaptured',
    ({ lines }) => `Captured ${lines.length} lines of output`,
  ),
};

export type LogEvent = EventsOf<typeof logEvents>;
