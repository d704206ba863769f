import fc from 'fast-check';
import { EventCatalogue } from './event-catalogue.ts';
import { defineEvent, type JsonObject } from './event-definition.ts';
import type { StoredEvent } from './event-store.ts';

const upcasts = {
  1: ({ title, ...rest }: JsonObject): JsonObject => ({ ...rest, name: title ?? 'unnamed' }),
  2: ({ name, ...rest }: JsonObject): JsonObject => ({ ...rest, label: { text: name ?? null } }),
};
const renamed = defineEvent<{ label: { text: string } }>()('Renamed', ({ label }) => `Renamed to ${label.text}`, 3, upcasts);
const catalogue = new EventCatalogue([renamed, defineEvent<JsonObject>()('Happened', () => 'Something happened')]);

function stored(type: string, schemaVersion: number, data: JsonObject): StoredEvent {
  const actor = { kind: 'system' as const, id: 'test', name: 'test' };
  const metadata = { actor, account_id: null, request_id: null, causation_id: null, ip: null };
  const at = '2026-01-01T00:00:00.000Z';
  return { id: 'id', type, schemaVersion, data, metadata, stream: 'agent-1', revision: 0, position: '0'.repeat(20), at };
}

describe('The catalogue of events', () => {
  it('reads every older version through each step up to the newest', () => {
    fc.assert(
      fc.property(fc.string(), (name) => {
        const versions: StoredEvent[] = ([{ title: name }, { name }, { label: { text: name } }] as JsonObject[]).map((data, index) =>
          stored('Renamed', index + 1, data),
        );
        for (const event of versions) {
          expect(catalogue.upcast(event)).toEqual(stored('Renamed', 3, { label: { text: name } }));
          expect(catalogue.summaryOf(event)).toBe(`Renamed to ${name}`);
        }
      }),
    );
  });

  it('returns a current event unchanged, however often it is read', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), (data) => {
        const event = stored('Happened', 1, data);
        expect(catalogue.upcast(catalogue.upcast(event))).toBe(event);
      }),
    );
  });

  it('throws at an event that a newer program wrote', () => {
    expect(() => catalogue.upcast(stored('Invented', 1, {}))).toThrow(/Invented is not known.*newer release/);
    expect(() => catalogue.upcast(stored('Renamed', 4, {}))).toThrow(/Renamed version 4.*knows version 3/);
    expect(() => catalogue.upcast(stored('Renamed', 0, {}))).toThrow(/never was/);
    expect(() => catalogue.versionOf('Invented')).toThrow(/not known/);
  });

  it('refuses a type declared twice, and a version without upcasts to it', () => {
    expect(() => new EventCatalogue([renamed, renamed])).toThrow(/declared twice/);
    expect(() => new EventCatalogue([defineEvent()('Gap', () => '', 3, { 1: (data) => data })])).toThrow(
      /Gap has no upcast from version 2/,
    );
  });
});
