import type { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ContainerView, Transition } from '../../../runtime/container.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import type { EngineUptime } from '../../../sandboxes/services.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import { ContainerTimes } from './container-times.service.ts';

const at = (clock: string) => `2026-11-27T${clock}:00.000Z`;
/** The time at which the machine was started, and the last one at which the engine was up before that. */
const [STARTED, LAST_UP] = [at('12:00'), at('11:00')];

interface Facts {
  view?: Partial<ContainerView>;
  /** The changes that the engine remembers; null if it refuses to tell them. */
  changes?: Transition[] | null;
  computer?: Partial<Computer>;
}

/** Returns the time that a record gets, and the times for which the uptime was asked. */
async function timeOf(record: ComputerRecord, { view, changes = [], computer }: Facts): Promise<{ at: unknown; asked: string[] }> {
  const asked: string[] = [];
  const seen: ContainerView[] =
    view === undefined
      ? []
      : [{ ...({ handle: 'h', generation: 1, exitCode: 0, startedAt: null, finishedAt: null } as ContainerView), ...view }];
  const runtime = {
    inspect: async () => ({ containers: seen, volume: true }),
    transitions: async (_handle: string, since: string) => {
      if (changes === null) throw new RuntimeRefused('gone');
      return changes.filter((change) => change.at >= since);
    },
  } as unknown as ContainerRuntime;
  const uptime = {
    lastUp: async (time: Date) => {
      asked.push(time.toISOString());
      return new Date(LAST_UP);
    },
  } as EngineUptime;
  const times = new ContainerTimes(runtime, uptime);
  times.machineStartedAt = () => STARTED;
  const state = { generation: 1, activeSince: at('10:00'), requestedAt: null, sleepDepth: null, ...computer } as Computer;
  const dated = await times.withEngineTime('computer-1', state, record);
  return { at: 'at' in dated ? dated.at : undefined, asked };
}

const exit: ComputerRecord = { type: 'RecordExit', generation: 1, exitCode: 0, oom: false, cause: 'exited', startTimeoutSeconds: 60 };
const slept = (depth: 'frozen' | 'stopped'): ComputerRecord => ({ type: 'RecordSlept', depth });
const ready: ComputerRecord = { type: 'RecordReady', generation: 1 };
const exited = (more: Partial<ContainerView>): Partial<ContainerView> => ({ state: 'exited', ...more });

const ends = [
  ['a crash', exit],
  ['a sleep', slept('stopped')],
] as const;

describe('the time of a record about a computer', () => {
  it('is that of the start, the freeze and the thaw by the engine, or of their request if it has forgotten them', async () => {
    const running = { state: 'running', startedAt: at('10:30') } as const;
    expect((await timeOf(ready, { view: running })).at).toBe(at('10:30'));
    const thawed = { sleepDepth: 'frozen', activeSince: null, requestedAt: at('11:30') } as const;
    const changes: Transition[] = [
      { state: 'running', at: at('11:00') },
      { state: 'frozen', at: at('11:31') },
      { state: 'running', at: at('11:32') },
    ];
    expect((await timeOf(ready, { view: running, changes, computer: thawed })).at).toBe(at('11:32'));
    for (const none of [[], null]) expect((await timeOf(ready, { view: running, changes: none, computer: thawed })).at).toBe(at('11:30'));
    const going = { requestedAt: at('11:30') };
    expect((await timeOf(slept('frozen'), { view: { state: 'frozen' }, changes, computer: going })).at).toBe(at('11:31'));
    expect((await timeOf(slept('frozen'), { view: { state: 'frozen' }, computer: going })).at).toBe(at('11:30'));
  });

  it.each(ends)('is the engine’s time of the exit, however late it is recorded: %s', async (_, record) => {
    expect(await timeOf(record, { view: exited({ finishedAt: at('10:45') }) })).toEqual({ at: at('10:45'), asked: [] });
    expect((await timeOf(record, { view: exited({ finishedAt: at('10:45'), exitCode: 137 }) })).at).toBe(at('10:45'));
  });

  it.each(ends)('is the last one at which the engine was up, if the engine came back without it: %s', async (_, record) => {
    const found = exited({ exitCode: 255, finishedAt: at('12:05') });
    for (const changes of [[], null]) expect(await timeOf(record, { view: found, changes })).toEqual({ at: LAST_UP, asked: [at('12:05')] });
  });

  it('is that of the end if a program ended with the exit code that an engine uses, which the engine saw', async () => {
    const changes: Transition[] = [{ state: 'exited', at: at('10:45') }];
    expect(await timeOf(exit, { view: exited({ exitCode: 255, finishedAt: at('10:45') }), changes })).toEqual({
      at: at('10:45'),
      asked: [],
    });
  });

  it('is not later than the shutdown of its machine, if the engine did not see the exit', async () => {
    const unseen = exited({ exitCode: null });
    expect(await timeOf(exit, { view: unseen })).toEqual({ at: LAST_UP, asked: [STARTED] });
    expect(await timeOf(exit, { view: unseen, computer: { activeSince: at('12:01') } })).toEqual({ at: undefined, asked: [] });
    expect(await timeOf(exit, { view: unseen, changes: [{ state: 'exited', at: at('10:50') }] })).toEqual({ at: at('10:50'), asked: [] });
    expect(await timeOf(exit, {})).toEqual({ at: undefined, asked: [] });
  });

  it('is not used for another generation’s container, or for any other record', async () => {
    expect((await timeOf(exit, { view: exited({ generation: 2, finishedAt: at('10:45') }) })).at).toBeUndefined();
    expect((await timeOf({ type: 'RecordDeleted' }, { view: exited({ finishedAt: at('10:45') }) })).at).toBeUndefined();
  });
});
