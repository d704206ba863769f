import { sampleProjection, ProjectionProcess } from '../../../../test/support/sample-projection.ts';
import { sampleEvent } from '../../../../test/support/sample-event.ts';
import { appendTo, eventually, operate } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { WriteBuffer } from './write-buffer.ts';

describe('a read model that buffers the events of a busy time', () => {
  let test: TestDatabase;
  const open: ProjectionProcess[] = [];

  beforeEach(async () => (test = await freshDatabase()));
  afterEach(async () => {
    jest.useRealTimers();
    jest.restoreAllMocks();
    for (const harbour of open.splice(0)) await harbour.close();
    await test.drop();
  });

  async function start(): Promise<ProjectionProcess> {
    const opened = await ProjectionProcess.open(test.url, [sampleProjection]);
    open.push(opened);
    return opened;
  }

  /** Stops the clock, so that buffered events stay buffered until something causes a write. */
  function stopTheClock(): void {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'setInterval', 'Date'] });
  }

  const load = async ({ log }: ProjectionProcess, tons: number) =>
    (await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons }))).position;
  const cargo = async () => (await operate(test.url, 'select cargo from boats_v1')).map((row) => row.cargo);

  /** Returns a boat whose first load is written, and whose second one is buffered. */
  async function withGathered(): Promise<{ own: ProjectionProcess; written: string; gathered: string }> {
    const own = await start();
    await own.projections.waitFor('boats', (await appendTo(own.log.store, 'boat-Ark', sampleEvent('BoatArrived'))).position);
    stopTheClock();
    const added = jest.spyOn(WriteBuffer.prototype, 'add');
    const written = await load(own, 1);
    await own.projections.waitFor('boats', written);
    const before = added.mock.calls.length;
    const gathered = await load(own, 10);
    while (added.mock.calls.length === before) await new Promise(setImmediate);
    expect(await cargo()).toEqual(['1']);
    return { own, written, gathered };
  }

  it('shows a write to a read that waits for it, without delay', async () => {
    const { own, written, gathered } = await withGathered();
    expect(own.projections.checkpoint('boats')).toBe(written);
    await own.projections.waitFor('boats', gathered);
    expect(await cargo()).toEqual(['11']);
  });

  it('writes its buffer before it stops', async () => {
    const { own } = await withGathered();
    open.splice(0);
    await own.close();
    expect(await cargo()).toEqual(['11']);
  });

  it('loses nothing with its process, and writes nothing once another process has taken over', async () => {
    const { own, gathered } = await withGathered();
    jest.useRealTimers();
    const other = await start();
    // This ends the session that holds the lease, as a kill -9 would.
    await operate(
      test.url,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name in (select owner from consumer_leases)',
    );
    await eventually(async () => (await other.projections.status())[0]?.position === gathered, 'the other process');
    expect(await cargo()).toEqual(['11']);
    const position = await load(other, 100);
    await Promise.all([own, other].map(({ projections }) => projections.waitFor('boats', position)));
    expect(await cargo()).toEqual(['111']);
  });
});
