import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { eventDefinitions } from '../../src/app.module.ts';
import { EventCatalogue, UnknownEvent } from '../../src/platform/event-store/event-catalogue.ts';
import { categoryOf } from '../../src/platform/event-store/event-store.ts';
import {
  catalogueFile,
  catalogueOf,
  foldedFile,
  foldHistory,
  nameOf,
  readCatalogue,
  readSample,
  sampleHistory,
  sampleNames,
  sumOf,
  sums,
  writeMissingSamples,
} from './event-samples.ts';
import { misfits } from './event-shapes.ts';
import { golden, updatesGolden } from './golden.ts';
import { sampleLog } from './sample-log.ts';

const source = resolve(import.meta.dirname, '../../src');
const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.events.ts'))
  .toSorted()
  .map((path) => join(source, path));
const catalogue = new EventCatalogue(eventDefinitions);
/** Returns the items as JSON; `npm run update-golden` breaks its lines, so that a diff shows what changed. */
const asText = (items: unknown[]) => `${JSON.stringify(items)}\n`;

beforeAll(() => {
  if (!updatesGolden) return;
  writeFileSync(catalogueFile, asText(catalogueOf(files, (type) => catalogue.versionOf(type), readCatalogue())));
  writeMissingSamples((type) => catalogue.versionOf(type));
  for (const which of ['oldest', 'newest'] as const) writeFileSync(foldedFile(which), asText(foldHistory(sampleHistory(which), catalogue)));
});

describe('The catalogue of stored events', () => {
  it('matches the sources, and keeps every older version', () => {
    golden(() => expect(catalogueOf(files, (type) => catalogue.versionOf(type), readCatalogue())).toEqual(readCatalogue()));
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
    for (const entry of readCatalogue()) {
      const sample = readSample(nameOf(entry));
      expect([sample.type, sample.schemaVersion, categoryOf(sample.stream)]).toEqual([entry.type, entry.version, entry.stream]);
      expect({ of: nameOf(entry), misfits: misfits(entry.data, sample.data) }).toEqual({ of: nameOf(entry), misfits: [] });
    }
  });
});

describe('Stored samples', () => {
  it('are never edited or removed', () => {
    expect(Object.fromEntries(sampleNames().map((name) => [name, sumOf(name)]))).toEqual(Object.fromEntries(sums()));
    expect(sampleNames()).toEqual(readCatalogue().map(nameOf).toSorted());
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
    for (const { event } of sampleLog) {
      const stored = readSample(nameOf({ type: event.type, version: catalogue.versionOf(event.type) }));
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
