import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import type { Database } from '../../../postgres/database/database.ts';
import { openDatabase } from '../../../postgres/database/open-database.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import { DrainedRuns } from './drained-runs.ts';

let database: TestDatabase;
let opened: Database;

beforeAll(async () => {
  database = await freshDatabase();
  opened = await openDatabase({ url: database.url, allowUnsafe: true });
});

afterAll(async () => {
  await opened?.close();
  await database?.drop();
});

const view = (agentId: string, change: Partial<ContainerView> = {}): ContainerView => ({
  agentId,
  generation: 1,
  deploymentId: 'd',
  handle: `container of ${agentId}`,
  state: 'exited',
  exitCode: 0,
  oomKilled: false,
  startedAt: '2026-01-01T00:00:00.123456789Z',
  finishedAt: null,
  ...change,
});

/** Returns the runs of a process that has just started. */
const restarted = () => new DrainedRuns(opened);
const missing = async (runs: DrainedRuns, ended: ContainerView[], limit = 100) =>
  (await runs.firstMissing(ended, limit)).map(({ agentId }) => agentId);

describe('the output of a container that has ended', () => {
  it('is captured until it is complete, and not again after a restart', async () => {
    const ended = [view('whole'), view('unfinished')];
    const before = restarted();
    expect(await missing(before, ended)).toEqual(['whole', 'unfinished']);
    await before.add(view('whole'));
    expect(await missing(before, ended)).toEqual(['unfinished']);
    expect(await missing(restarted(), ended)).toEqual(['unfinished']);
  });

  it('is captured again if the container ran once more or was replaced', async () => {
    const runs = restarted();
    await runs.add(view('again'));
    expect(runs.has(view('again'))).toBe(true);
    expect(runs.has(view('again', { startedAt: '2026-01-02T00:00:00Z' }))).toBe(false);
    expect(await missing(restarted(), [view('again', { handle: 'a newer one' })])).toEqual(['again']);
  });

  it('is known by another replica to be complete, even if there are many containers', async () => {
    const [one, other] = [restarted(), restarted()];
    const many = Array.from({ length: 1_200 }, (_, n) => view(`agent ${String(n).padStart(4, '0')}`));
    for (const each of many.slice(0, 1_100)) await one.add(each);
    expect(await missing(other, many, 2)).toEqual(['agent 1100', 'agent 1101']);
  });

  it('leaves no row once the agent has no container', async () => {
    const runs = restarted();
    await runs.add(view('removed'));
    await runs.add(view('standing'));
    await runs.retainOnly(new Set(['standing']));
    const rows = await opened.query<{ agent_id: string }>("select agent_id from drained_runs where agent_id in ('removed', 'standing')");
    expect(rows).toEqual([{ agent_id: 'standing' }]);
    expect(runs.has(view('removed'))).toBe(false);
  });
});
