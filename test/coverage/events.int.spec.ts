import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { eventDefinitions } from '../../src/app.module.ts';
import { declaredEvents, eventCatalogue, eventFiles, eventsPage } from './event-catalogue.ts';
import { golden } from './golden.ts';

const root = resolve(import.meta.dirname, '../..');

describe('docs/reference/events.md', () => {
  it('matches the sources', () => {
    const catalogue = eventCatalogue();
    golden(() => expect(readFileSync(eventsPage, 'utf8')).toBe(catalogue));
    expect(catalogue).not.toContain('NO STREAM SAID');
  });

  it('lists only events that a test of the behaviour names', () => {
    const specs = ['src', 'test/features', 'test/e2e']
      .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(root, folder, path)))
      .filter((path) => path.endsWith('.spec.ts'));
    const named = new Set(specs.flatMap((path) => readFileSync(path, 'utf8').match(/\b[A-Z]\w+\b/g) ?? []));
    // A failure is fixed by a test of the decider in the event's folder, which says when the event is appended and when it is not.
    expect(eventDefinitions.map(({ type }) => type).filter((type) => !named.has(type))).toEqual([]);
  });

  it('has every event that the service knows, and no other', () => {
    const declared = eventFiles.flatMap((file) => declaredEvents(readFileSync(file, 'utf8')));
    const known = eventDefinitions.map(({ type, version }) => `${type} ${version}`);
    expect(declared.map(({ type, version }) => `${type} ${version}`).toSorted()).toEqual(known.toSorted());
  });
});
