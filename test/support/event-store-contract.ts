import { v7 as uuidv7 } from 'uuid';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import {
  START,
  type EventFilter,
  type EventStore,
  type NewEvent,
  type Position,
  type StoredEvent,
} from '../../src/eventsourcing/event-store/event-store.ts';

export const contractCatalogue = new EventCatalogue([
  defineEvent<JsonObject>()('Happened', () => 'Something happened'),
  defineEvent<JsonObject>()('Ended', () => 'It ended'),
  defineEvent<JsonObject>()('Renamed', () => 'It has another name', 2, { 1: ({ title, ...rest }) => ({ ...rest, name: title ?? null }) }),
  defineEvent<JsonObject>()('LogLinesCaptured', () => 'Lines were written'),
]);

export interface ContractSubject {
  /** An adapter with `contractCatalogue`, on an empty log. */
  store: EventStore;
  /** Opens another adapter on the same log, as another replica would have; `close` closes it too. */
  another(): Promise<EventStore>;
  /** Makes the store delete at once what is past its retention. */
  removeExpired(): Promise<void>;
  /** Appends one event from another client, so slowly that it becomes visible only some time after it was appended. */
  appendSlowly(stream: string, revision: number, milliseconds: number): Promise<void>;
  close(): Promise<void>;
}

export const metadata = {
  actor: { kind: 'system' as const, id: 'test', name: 'test' },
  account_id: null,
  request_id: null,
  causation_id: null,
  ip: null,
};
export const core: EventFilter = { eventClass: 'core' };
export const logs: EventFilter = { eventClass: 'log' };

export function newEvent(data: JsonObject = {}, type = 'Happened'): NewEvent {
  return { id: uuidv7(), type, schemaVersion: contractCatalogue.versionOf(type), data, metadata };
}

export function newEvents(count: number): NewEvent[] {
  return Array.from({ length: count }, (_, index) => newEvent({ index }));
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export async function everything(store: EventStore, filter: EventFilter = core, after: Position = START): Promise<StoredEvent[]> {
  return (await collect(store.readAll(after, filter))).flat();
}

/** Waits for the condition; the test's own timeout bounds the wait. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

export type Given = () => { store: EventStore; subject: ContractSubject; newStream: (category?: string) => string };
