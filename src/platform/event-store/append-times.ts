import { channel } from 'node:diagnostics_channel';

import type { EventClass } from './event-store.ts';

/** The `diagnostics_channel` on which each append that came to an end, good or bad, is told as an `AppendTime`. */
export const APPEND_CHANNEL = 'mooring.event-store.append';

export interface AppendTime {
  eventClass: EventClass;
  /** From the call to its outcome. */
  seconds: number;
}

const appends = channel(APPEND_CHANNEL);

/** Does the append and tells how long it took; costs nothing where nobody listens. */
export async function timed<T>(eventClass: EventClass, append: () => Promise<T>): Promise<T> {
  if (!appends.hasSubscribers) return append();
  const began = performance.now();
  try {
    return await append();
  } finally {
    appends.publish({ eventClass, seconds: (performance.now() - began) / 1_000 } satisfies AppendTime);
  }
}
