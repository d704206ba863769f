import type { AnyEventDefinition } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { quickIntervals } from './intervals.ts';
import { Leases } from '../../src/postgres/leases/leases.ts';
import { idOf } from '../../src/eventsourcing/event-store/event-store.ts';
import { typed } from '../../src/postgres/database/table.ts';
import type { Projection, ProjectionTable } from '../../src/eventsourcing/projections/projection.ts';
import { ReplicaRegistry } from '../../src/eventsourcing/projections/replica-registry.ts';
import { Projections } from '../../src/eventsourcing/projections/projections.ts';
import { everything, openLog, openPasses, type OpenedLog } from './log.ts';

/** A table that has columns of every kind that read models use. */
const sampleTable = {
  key: 'name',
  columns: {
    name: 'text collate "C" not null',
    cargo: typed<number>('numeric not null'),
    holds: 'text[] not null',
    note: 'text',
    arrived_at: 'timestamptz(3) not null',
    seen_at: 'timestamptz',
    papers: 'json not null',
    stamps: 'jsonb not null',
    gone: 'boolean not null',
  },
  indexes: { by_cargo: '(cargo desc, name)', laden: '(name) where cargo > 0' },
} as const satisfies ProjectionTable;

export type SampleProjection = Projection<typeof sampleTable>;

export const sampleProjection: SampleProjection = {
  name: 'boats',
  version: 1,
  filter: { ...everything, categories: ['boat'] },
  table: sampleTable,
  keys: (event) => [idOf(event.stream)],
  project(event, rows) {
    const name = idOf(event.stream);
    const boat = rows.get(name);
    const note = (event.data.note as string | undefined) ?? null;
    if (event.type === 'BoatArrived') {
      const papers = { note, at: event.at, by: event.metadata.actor.name };
      const times = { arrived_at: event.at, seen_at: null };
      rows.set(name, { name, cargo: 0, holds: [], note, ...times, papers, stamps: { b: note, a: 1 }, gone: false });
    } else if (event.type === 'BoatLoaded' && boat) {
      const holds = [...boat.holds, note ?? ''].slice(-5);
      rows.set(name, { ...boat, cargo: boat.cargo + (event.data.tons as number), holds, note, seen_at: event.at });
    } else if (event.type === 'BoatLeft') rows.delete(name);
  },
};

/** One process that maintains the read models, as far as the database can distinguish. */
export class ProjectionProcess {
  private constructor(
    readonly log: OpenedLog,
    readonly leases: Leases,
    readonly projections: Projections,
    readonly replicas: ReplicaRegistry,
  ) {}

  /** Opens the process. `before` is called with the opened log before anything is followed. */
  static async open(
    url: string,
    projections: SampleProjection[] = [sampleProjection],
    before: (log: OpenedLog) => void = () => undefined,
    newer: readonly AnyEventDefinition[] = [],
  ): Promise<ProjectionProcess> {
    const log = await openLog(url, newer);
    before(log);
    const leases = new Leases(log.database, quickIntervals);
    const kept = new Projections(log.database, log.store, leases, log.aggregates, openPasses(log.store, quickIntervals));
    for (const projection of projections) kept.register(projection);
    const keys = { refresh: () => Promise.resolve('a key') };
    const replicas = new ReplicaRegistry(log.database, kept, log.catalogue, keys);
    await replicas.onModuleInit();
    await kept.start();
    return new ProjectionProcess(log, leases, kept, replicas);
  }

  async close(): Promise<void> {
    await this.projections.beforeApplicationShutdown();
    await this.replicas.beforeApplicationShutdown();
    await this.log.close();
  }
}

/** Blocks the bulk reads of a store: each yields its first events and then waits for `release`. */
export function holdBulkReads({ store }: OpenedLog): { held: () => boolean; release: () => void } {
  const read = store.readBulk.bind(store);
  let reading = false;
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  store.readBulk = async function* (...of) {
    for await (const batch of read(...of)) {
      yield batch;
      reading = true;
      await released;
    }
  };
  return { held: () => reading, release };
}
