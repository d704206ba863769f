import { channel } from 'node:diagnostics_channel';

import type { EventClass } from './event-store.ts';

/** The `diagnostics_channel` on which each append that succeeded or failed is published as an `AppendTime`. */
export const APPEND_CHANNEL = 'mooring.event-store.append';

export interface AppendTime {
  eventClass: EventClass;
  /** The time from the call to its outcome, in seconds. */
  seconds: number;
}

const appends = channel(APPEND_CHANNEL);

/** Runs the append and publishes how long it took; this costs nothing if nobody listens. */
export async function timed<T>(eventClass: EventClass, append: () => Promise<T>): Promise<T> {
  if (!appends.hasSubscribers) return append();
  const began = performance.now();
  try {
    return await append();
  } finally {
    appends.publish({ eventClass, seconds: (performance.now() - began) / 1_000 } satisfies AppendTime);
  }
}
