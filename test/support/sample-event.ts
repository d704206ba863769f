import { randomUUID } from 'node:crypto';

import type { JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import type { NewEvent } from '../../src/eventsourcing/event-store/event-store.ts';

/** Makes an event of the harbour, which log.ts declares. */
export function sampleEvent(type: string, data: JsonObject = {}): NewEvent {
  const metadata = {
    actor: { kind: 'system', id: 'test', name: 'test' },
    account_id: null,
    request_id: null,
    causation_id: null,
    ip: null,
  } as const;
  return { id: randomUUID(), type, schemaVersion: 1, data, metadata };
}
