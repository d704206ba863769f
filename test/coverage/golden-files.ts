import { writeFileSync } from 'node:fs';

import { eventDefinitions } from '../../src/app.module.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { configurationPage, configurationText } from './configuration.ts';
import { eventCatalogue, eventsPage } from './event-catalogue.ts';
import { catalogueFile, catalogueOf, foldedFile, foldHistory, readCatalogue, sampleHistory, writeMissingSamples } from './event-samples.ts';
import { routesFile, routesOfTheService, routesTable } from './service-routes.ts';
import { writeSnapshots } from './snapshots.ts';
import { removeUncommittedSamples } from './uncommitted-samples.ts';

const catalogue = new EventCatalogue(eventDefinitions);
const versionOf = (type: string) => catalogue.versionOf(type);
/** Returns the items as JSON; the formatter breaks its lines, so that a diff shows what changed. */
const asText = (items: unknown[]) => `${JSON.stringify(items)}\n`;

/** The files that tests compare with, in the order in which they are written: later ones are made from earlier ones. */
export const goldenFiles: { name: string; write: () => void | Promise<void> }[] = [
  { name: 'eventstore/samples', write: writeSamples },
  { name: 'eventstore/catalogue.json', write: () => writeFileSync(catalogueFile, asText(catalogueOf(versionOf, readCatalogue()))) },
  { name: 'eventstore/folded-oldest.json', write: () => writeFolded('oldest') },
  { name: 'eventstore/folded-newest.json', write: () => writeFolded('newest') },
  { name: 'eventstore/snapshots', write: () => writeSnapshots(catalogue) },
  { name: 'docs/reference/events.md', write: () => writeFileSync(eventsPage, eventCatalogue()) },
  { name: 'docs/reference/configuration.md', write: () => writeFileSync(configurationPage, configurationText()) },
  { name: 'test/coverage/routes.txt', write: async () => writeFileSync(routesFile, routesTable(await routesOfTheService())) },
];

function writeSamples(): void {
  removeUncommittedSamples();
  writeMissingSamples(eventDefinitions);
}

function writeFolded(which: 'oldest' | 'newest'): void {
  writeFileSync(foldedFile(which), asText(foldHistory(sampleHistory(which), catalogue)));
}
