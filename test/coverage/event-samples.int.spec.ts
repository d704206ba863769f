import { readFileSync } from 'node:fs';

import { eventDefinitions } from '../../src/app.module.ts';
import { EventCatalogue, UnknownEvent } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { categoryOf } from '../../src/eventsourcing/event-store/event-store.ts';
import {
  catalogueOf,
  foldedFile,
  foldHistory,
  isFullName,
  nameOf,
  readCatalogue,
  readSample,
  sampleHistory,
  sampleNames,
  sumOf,
  sums,
} from './event-samples.ts';
import { misfits } from './event-shapes.ts';
import { golden } from './golden.ts';
import { sampleLog } from './sample-log.ts';

const catalogue = new EventCatalogue(eventDefinitions);

describe('The catalogue of stored events', () => {
  it('matches the sources, and keeps every older version', () => {
    golden(() => expect(catalogueOf((type) => catalogue.versionOf(type), readCatalogue())).toEqual(readCatalogue()));
    const expected = eventDefinitions.flatMap(({ type, version }) =>
      Array.from({ length: version }, (_, before) => `${type} ${before + 1}`),
    );
    expect(
      readCatalogue()
        .map(({ type, version }) => `${type} ${version}`)
        .toSorted(),
    ).toEqual(expected.toSorted());
  });

  it('has a stored sample of each version that is on the right stream and has the declared shape', () => {
    const entries = new Map(readCatalogue().map((entry) => [nameOf(entry), entry]));
    expect(sampleNames().filter((name) => !isFullName(name))).toEqual([...entries.keys()].toSorted());
    for (const name of sampleNames()) {
      const sample = readSample(name);
      const entry = entries.get(nameOf({ type: sample.type, version: sample.schemaVersion }));
      expect([name, categoryOf(sample.stream)]).toEqual([name, entry?.stream]);
      expect({ of: name, misfits: entry && misfits(entry.data, sample.data) }).toEqual({ of: name, misfits: [] });
    }
  });
});

describe('Stored samples', () => {
  it('are never edited or removed', () => {
    expect(Object.fromEntries(sampleNames().map((name) => [name, sumOf(name)]))).toEqual(Object.fromEntries(sums()));
  });

  it('of every version are read as the newest', () => {
    const shapes = new Map(readCatalogue().map((entry) => [nameOf(entry), entry.data]));
    for (const name of sampleNames()) {
      const event = catalogue.upcast(readSample(name));
      const version = catalogue.versionOf(event.type);
      const shape = shapes.get(nameOf({ type: event.type, version }));
      expect(event.schemaVersion).toBe(version);
      expect({ name, misfits: shape && misfits(shape, event.data) }).toEqual({ name, misfits: [] });
      expect(catalogue.summaryOf(event)).toMatch(/^[A-Z]\S+ \S/);
    }
  });

  it('are in the sample history as they were stored', () => {
    for (const { event, isFull } of sampleLog) {
      const stored = readSample(nameOf({ type: event.type, version: catalogue.versionOf(event.type), isFull }));
      expect(stored.data).toEqual(event.data);
    }
  });

  it.each(['oldest', 'newest'] as const)('in their %s versions fold into the same states and rows as always', (which) => {
    golden(() => expect(foldHistory(sampleHistory(which), catalogue)).toEqual(JSON.parse(readFileSync(foldedFile(which), 'utf8'))));
  });

  it('that are newer than the program are refused', () => {
    const older = new EventCatalogue(eventDefinitions.map((definition) => ({ ...definition, version: 1 })));
    const newer = sampleNames()
      .map(readSample)
      .filter(({ schemaVersion }) => schemaVersion > 1);
    expect(newer.length).toBeGreaterThan(0);
    for (const event of newer) expect(() => older.upcast(event)).toThrow(UnknownEvent);
  });
});
