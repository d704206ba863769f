import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { eventDefinitions } from '../../src/app.module.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import type { StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { BoundedFold } from '../../src/eventsourcing/projections/rebuild/bounded-fold.ts';
import { CopyText } from '../../src/eventsourcing/projections/tables/row-copy.ts';
import { fold as foldLive } from '../../src/eventsourcing/projections/tables/fold.ts';
import { follows, foldedProjections } from '../support/read-models.ts';
import { sampleHistory } from './event-samples.ts';

const catalogue = new EventCatalogue(eventDefinitions);
const COPIES = 40;

/** Returns the sample history for many agents, with their events interleaved. */
function manyLives(): StoredEvent[] {
  const history = sampleHistory('newest');
  return history.flatMap((event, place) =>
    Array.from({ length: COPIES }, (_, life) => {
      // Ids of the history end in a number, which is replaced for each copy.
      const text = JSON.stringify(event).replaceAll('b302099a8', `b${String(300_000 + life)}a8`.slice(0, 9));
      return { ...(JSON.parse(text) as StoredEvent), position: String(place * COPIES + life + 1).padStart(20, '0') };
    }),
  );
}

let directory: string;
beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), 'mooring-spill-'))));
afterAll(() => rm(directory, { recursive: true }));

/** Returns the rows of a COPY. */
const linesOf = (text: Buffer): string[] => text.toString().split('\n').slice(0, -1);

/** Checks that every read model can be folded part by part, as its `partition` (by default: its streams) divides it. */
describe.each(foldedProjections(catalogue).map((projection) => [projection.name, projection] as const))(
  'the rows of %s',
  (_, projection) => {
    const events = manyLives().filter((event) => follows(projection, event));

    async function folded(taken: number, memoryBytes: number): Promise<string[]> {
      const fold = new BoundedFold(projection, { memoryBytes, directory });
      const rows: string[] = [];
      for (const event of events.slice(0, taken)) {
        await fold.apply([event]);
        rows.push(...linesOf(fold.drainFinal()));
      }
      for await (const text of fold.text()) rows.push(...linesOf(text));
      await fold.close();
      return rows.toSorted();
    }

    it.each([0.25, 0.5, 0.75, 1])('are the same whether or not they fit into memory, after %d of the history', async (share) => {
      const taken = Math.round(events.length * share);
      expect(taken).toBeGreaterThan(0);
      expect(await folded(taken, 0)).toEqual(await folded(taken, 1e9));
    });

    it('are those that a live fold writes, although rows that their event does not name are taken as soon as they are set', async () => {
      const { written, failure } = foldLive(projection, events, new Map());
      expect(failure).toBeNull();
      const text = new CopyText(projection.table);
      for (const row of written) text.add(row);
      expect(await folded(events.length, 1e9)).toEqual(linesOf(text.drain()).toSorted());
    });
  },
);
