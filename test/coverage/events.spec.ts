import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { eventDefinitions } from '../../src/app.module.ts';
import { declaredEvents, eventCatalogue } from './event-catalogue.ts';
import { golden, updatesGolden } from './golden.ts';

const root = resolve(import.meta.dirname, '../..');
const page = join(root, 'docs/events.md');
const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.events.ts'))
  .toSorted()
  .map((path) => join(root, 'src', path));

describe('docs/events.md', () => {
  it('matches the sources', () => {
    const catalogue = eventCatalogue(files);
    if (updatesGolden) writeFileSync(page, catalogue);
    golden(() => expect(readFileSync(page, 'utf8')).toBe(catalogue));
    expect(catalogue).not.toContain('NO STREAM SAID');
  });

  it('has every event that the service knows, and no other', () => {
    const declared = files.flatMap((file) => declaredEvents(readFileSync(file, 'utf8')));
    const known = eventDefinitions.map(({ type, version }) => `${type} ${version}`);
    expect(declared.map(({ type, version }) => `${type} ${version}`).toSorted()).toEqual(known.toSorted());
  });
});
