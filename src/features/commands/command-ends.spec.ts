import fc from 'fast-check';

import { NOON } from '../../../test/support/decider-spec.ts';
import type { CommandState } from '../../runtime/agent-commands.ts';
import type { ContainerState, ContainerView } from '../../runtime/container.ts';
import { containerOf, awakeUntil, observe } from './command-ends.ts';
import type { RunningCommand } from './commands.decider.ts';

const at = (seconds: number) => new Date(NOON.getTime() + seconds * 1_000);
const iso = (seconds: number) => at(seconds).toISOString();
const command = (more: Partial<RunningCommand> = {}): RunningCommand => ({
  id: 'one',
  generation: 2,
  startedAt: iso(0),
  startsBy: iso(20),
  keepAwakeUntil: null,
  ...more,
});
const container = (state: ContainerState, more: Partial<ContainerView> = {}): ContainerView => ({
  agentId: 'agent',
  generation: 2,
  deploymentId: 'deployment',
  handle: 'handle',
  state,
  exitCode: null,
  oomKilled: false,
  startedAt: iso(-100),
  finishedAt: null,
  ...more,
});
const states = (state: Partial<CommandState> | null): ReadonlyMap<string, CommandState> =>
  new Map(state === null ? [] : [['one', { status: 'running', exitCode: null, outputBytes: 7, droppedBytes: 1, ...state }]]);
const looked = (view: ContainerView | null, state: Partial<CommandState> | null, seconds: number) =>
  observe(command(), view, states(state), at(seconds));

describe('a command whose end is not in the log', () => {
  it('has ended with its container if that is gone, has ended or was replaced', () => {
    for (const views of [[], [container('exited')], [container('running', { generation: 3 })], [container('running', { outdated: true })]])
      expect(observe(command(), containerOf(command(), views), states(null), at(1))).toMatchObject({
        kind: 'ended',
        end: 'ended_by_sleep',
      });
  });

  it('is left alone while its container is frozen', () => {
    expect(looked(container('frozen'), null, 1_000)).toEqual({ kind: 'unknown', until: null });
  });

  it('has the outcome that its container reports', () => {
    expect(looked(container('running'), {}, 1)).toEqual({ kind: 'runs' });
    const counts = { outputBytes: 7, droppedBytes: 1 };
    expect(looked(container('running'), { status: 'exited', exitCode: 3 }, 1)).toEqual({
      kind: 'ended',
      end: 'exited',
      exitCode: 3,
      ...counts,
    });
    expect(looked(container('running'), { status: 'killed', exitCode: 137 }, 1)).toMatchObject({ end: 'killed', exitCode: 137 });
  });

  it('may be started still until its time is over, and is lost afterwards', () => {
    expect(looked(container('running'), null, 19)).toEqual({ kind: 'unknown', until: at(20) });
    expect(looked(container('running'), null, 20)).toMatchObject({ kind: 'ended', end: 'lost' });
  });

  it('has ended with its container if that was started again since', () => {
    expect(looked(container('running', { startedAt: iso(10) }), null, 20)).toMatchObject({ kind: 'ended', end: 'ended_by_sleep' });
  });
});

describe('the time for which commands hold their agent awake', () => {
  it('is the latest one that is not over, whatever their order', () => {
    const times = fc.array(fc.option(fc.integer({ min: -500, max: 500 })), { maxLength: 16 });
    fc.assert(
      fc.property(times, (seconds) => {
        const commands = seconds.map((each) => command({ keepAwakeUntil: each === null ? null : iso(each) }));
        const future = seconds.filter((each) => each !== null && each > 0) as number[];
        expect(awakeUntil(commands, NOON)).toEqual(future.length === 0 ? null : at(Math.max(...future)));
      }),
    );
  });
});
