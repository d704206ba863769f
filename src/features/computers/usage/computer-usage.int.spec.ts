import fc from 'fast-check';

import { ComputerFixture, computerFeatures } from '../../../../test/support/computer-fixture.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { computerIntervalsProjection } from './computer-intervals.projection.ts';

let server: TestServer;

beforeAll(async () => {
  server = await startFeatureServer(computerFeatures);
});
afterAll(() => server?.close());

const DAY_MS = 86_400_000;

/** Writes times awake as the read model would have them, so that a test can look at months of use. */
async function storeIntervals(bed: ComputerFixture, computerId: string, endUserId: string, intervals: readonly (readonly [Date, Date])[]) {
  const table = tableOf(computerIntervalsProjection);
  for (const [index, [from, to]] of intervals.entries())
    await server.app
      .get(Database, { strict: false })
      .query(`insert into ${table} values ($1, $2, $3, $4, 'small', $5, $6)`, [
        `${computerId}:test-${index}`,
        computerId,
        bed.accountId,
        endUserId,
        from,
        to,
      ]);
}

const usage = async (bed: ComputerFixture, query: string) => (await bed.ask('GET', `/usage${query}`)).json;

describe('the usage of computers', () => {
  it('is the time for which they were awake, by the engine’s times, and what was done with them', async () => {
    const bed = await ComputerFixture.open(server, 'used');
    const before = Date.now();
    const at = (ms: number) => new Date(before + ms).toISOString();
    const computerId = await bed.create('ana', { size: 'medium' });
    await bed.record(computerId, { type: 'RecordImage', image: 'sha256:1', imageName: 'desk:1' });
    // The service was away for an hour after the engine had started the computer and put it to sleep.
    const hour = 3_600_000;
    await bed.ready(computerId, new Date(before - 2 * hour));
    await bed.record(computerId, {
      type: 'SleepComputer',
      accountId: bed.accountId,
      depth: 'stopped',
      reason: 'idle',
      deadlineAt: at(60_000),
    });
    await bed.record(computerId, { type: 'RecordSlept', depth: 'stopped', at: at(-hour) });
    const acted = { batches: 1, since: at(0), until: at(0) };
    await bed.record(computerId, { type: 'RecordActed', actions: { type: 2, left_click: 3 }, screenshots: 4, ...acted });
    await bed.record(computerId, { type: 'RecordActed', actions: {}, screenshots: 1, ...acted });
    const from = new Date(before - 3 * DAY_MS).toISOString();
    const used = await usage(bed, `?from=${from}&granularity=total`);
    const sums = { awake_seconds: 3_600, wakes: 1, actions: 5, screenshots: 5, exec_calls: 0, viewer_seconds: 0 };
    expect(used.totals).toEqual(sums);
    expect(used.computers).toEqual([
      {
        computer_id: computerId,
        end_user_id: 'ana',
        size: 'medium',
        ...sums,
        periods: [{ start: used.from, end: used.to, awake_seconds: 3_600 }],
      },
    ]);
    const other = await ComputerFixture.open(server, 'unused');
    expect((await usage(other, `?from=${from}`)).computers).toEqual([]);
    expect((await usage(other, `?from=${from}&computer_id=${computerId}`)).totals.awake_seconds).toBe(0);
  });

  it('grows while a computer is awake, and stays after it is deleted', async () => {
    const bed = await ComputerFixture.open(server, 'goes-on');
    const computerId = await bed.create('ana');
    await bed.record(computerId, { type: 'RecordImage', image: 'sha256:1', imageName: 'desk:1' });
    await bed.ready(computerId, new Date(Date.now() - 100_000));
    const from = new Date(Date.now() - DAY_MS).toISOString();
    const first = await usage(bed, `?from=${from}&granularity=total`);
    expect(first.totals).toMatchObject({ wakes: 1 });
    expect(first.totals.awake_seconds).toBeGreaterThanOrEqual(100);
    expect(first.totals.awake_seconds).toBeLessThan(200);
    await Promise.all([bed.ask('DELETE', `/${computerId}`), bed.recordWhen(computerId, 'deleting', { type: 'RecordDeleted' })]);
    const last = await usage(bed, `?from=${from}&granularity=total`);
    expect(last.computers).toMatchObject([{ computer_id: computerId, end_user_id: 'ana', wakes: 1 }]);
    expect(last.totals.awake_seconds).toBeGreaterThanOrEqual(first.totals.awake_seconds);
    expect((await usage(bed, `?from=${from}&granularity=total`)).totals).toEqual(last.totals);
  });

  it('is cut at the borders of days and months, of which the empty ones are left out', async () => {
    const bed = await ComputerFixture.open(server, 'cut');
    const id = '00000000-0000-4000-8000-000000000001';
    await storeIntervals(bed, id, 'ana', [
      [new Date('2026-01-30T23:00:00Z'), new Date('2026-02-01T01:00:00Z')],
      [new Date('2026-02-03T00:00:00Z'), new Date('2026-02-03T00:00:00.400Z')],
      [new Date('2026-02-03T01:00:00Z'), new Date('2026-02-03T01:00:00.400Z')],
    ]);
    const days = await usage(bed, '?from=2026-01-31T12:00:00Z&to=2026-02-04T00:00:00Z');
    expect(days.granularity).toBe('day');
    expect(days.totals).toMatchObject({ awake_seconds: 13 * 3_600 + 1, wakes: 2 });
    expect(days.computers[0].periods).toEqual([
      { start: '2026-01-31T12:00:00.000Z', end: '2026-02-01T00:00:00.000Z', awake_seconds: 12 * 3_600 },
      { start: '2026-02-01T00:00:00.000Z', end: '2026-02-02T00:00:00.000Z', awake_seconds: 3_600 },
      // Parts of a second are summed before they are rounded.
      { start: '2026-02-03T00:00:00.000Z', end: '2026-02-04T00:00:00.000Z', awake_seconds: 1 },
    ]);
    const months = await usage(bed, '?from=2026-01-01&to=2026-03-01&granularity=month');
    expect(months.computers[0].periods).toEqual([
      { start: '2026-01-01T00:00:00.000Z', end: '2026-02-01T00:00:00.000Z', awake_seconds: 25 * 3_600 },
      { start: '2026-02-01T00:00:00.000Z', end: '2026-03-01T00:00:00.000Z', awake_seconds: 3_601 },
    ]);
  });

  it('is chosen by end user and computer, and comes page by page with the totals of all', async () => {
    const bed = await ComputerFixture.open(server, 'paged');
    const id = (index: number) => `00000000-0000-4000-8000-00000000001${index}`;
    const minute = [new Date('2026-02-01T00:00:00Z'), new Date('2026-02-01T00:01:00Z')] as const;
    for (const index of [0, 1, 2]) await storeIntervals(bed, id(index), `user-${index}`, [minute]);
    const range = 'from=2026-02-01&to=2026-02-02';
    const first = await bed.ask('GET', `/usage?${range}&limit=2`);
    expect(first.json.totals.awake_seconds).toBe(180);
    const next = /(\/usage\?[^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1];
    const second = await bed.ask('GET', `${next}`);
    const ids = (json: { computers: { computer_id: string }[] }) => json.computers.map(({ computer_id }) => computer_id);
    expect([...ids(first.json), ...ids(second.json)]).toEqual([id(0), id(1), id(2)]);
    expect(ids(await usage(bed, `?${range}&end_user_id=user-1`))).toEqual([id(1)]);
    expect(ids(await usage(bed, `?${range}&computer_id=${id(2)}`))).toEqual([id(2)]);
    expect(ids(await usage(bed, `?${range}&computer_id=${id(2)}&end_user_id=user-1`))).toEqual([]);
    expect((await usage(bed, `?${range}&end_user_id=nobody`)).totals.awake_seconds).toBe(0);
  });

  it('has periods whose sum is the whole, however the times lie', async () => {
    const begin = Date.parse('2026-01-01T00:00:00Z');
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat({ max: 3 * DAY_MS }), fc.nat({ max: 3 * DAY_MS })), { maxLength: 8 }),
        fc.nat({ max: 10 * DAY_MS }),
        async (gaps, shift) => {
          run += 1;
          const bed = new ComputerFixture(server, `property-${run}`);
          let last = begin;
          const intervals = gaps.map(([pause, length]) => {
            const since = last + pause;
            last = since + length;
            return [new Date(since), new Date(last)] as const;
          });
          await storeIntervals(bed, `00000000-0000-4000-9000-${String(run).padStart(12, '0')}`, 'ana', intervals);
          const [from, to] = [begin + shift, begin + shift + 20 * DAY_MS];
          const expected = intervals.reduce((sum, [a, b]) => sum + Math.max(0, Math.min(b.getTime(), to) - Math.max(a.getTime(), from)), 0);
          const query = `?from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`;
          const used = await usage(bed, query);
          expect(used.totals.awake_seconds).toBe(Math.round(expected / 1_000));
          const periods = (used.computers[0]?.periods ?? []) as { start: string; end: string; awake_seconds: number }[];
          const sum = periods.reduce((total, { awake_seconds }) => total + awake_seconds, 0);
          expect(Math.abs(sum - expected / 1_000)).toBeLessThanOrEqual(periods.length / 2 + 1);
          for (const { start, end, awake_seconds } of periods)
            expect(awake_seconds).toBeLessThanOrEqual(Math.round((Date.parse(end) - Date.parse(start)) / 1_000));
        },
      ),
      { numRuns: 15 },
    );
  });

  it.each([
    'from=2026-01-02&to=2026-01-01',
    'from=2024-01-01&to=2026-01-01',
    'granularity=hour',
    'from=x',
    'end_user_id=a%20b',
    'computer_id=1',
  ])('refuses %s', async (query) => {
    const bed = new ComputerFixture(server, 'refused');
    const answer = await bed.ask('GET', `/usage?${query}`);
    expect([answer.status, answer.json.code]).toEqual([400, 'invalid_request']);
  });
});
