import { defineEvent, type EventsOf, type JsonObject } from '../../../eventsourcing/event-store/event-definition.ts';

export type LogLevel = 'info' | 'warning' | 'error';

/** A line of a container's output in an event. The names are short, because there are many lines. */
export type CapturedLine = {
  /** The time of the engine's clock, in ISO 8601 UTC with milliseconds. */
  t: string;
  l: LogLevel;
  m: string;
  /** The other members of a JSON line. */
  f?: JsonObject;
};

/**
 * The place up to which a container's output is in the log: all lines up to and including `time`, of which `count` have that same time. Where
 * the other output was within a long line, that line had begun at `open`.
 */
export type CaptureCursor = { generation: number; time: string; count: number; open?: string };

export const logEvents = {
  /** The `total` is the number of the agent's lines up to and including these, since its first; a line counts once for each 16 KiB. */
  LogLinesCaptured: defineEvent<{ lines: CapturedLine[]; cursor: CaptureCursor; total?: number }>()(
    'LogLinesCaptured',
    ({ lines }) => `Captured ${lines.length} lines of output`,
  ),
};

export type LogEvent = EventsOf<typeof logEvents>;
