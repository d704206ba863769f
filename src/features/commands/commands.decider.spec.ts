import fc from 'fast-check';

import { NOON, refusalOf } from '../../../test/support/decider-spec.ts';
import {
  type AgentCommandsState,
  commandsDecider,
  type CommandsOrder,
  ENDED_MAX,
  findCommand,
  hasEnded,
  LATEST_ACTS_MAX,
  RUNNING_MAX,
} from './commands.decider.ts';

const command = { v: 1 as const, key: 1, iv: 'iv', ct: 'ct' };
const times = { startedAt: NOON.toISOString(), startsBy: NOON.toISOString(), keepAwakeUntil: null };
const start = (commandId: string): CommandsOrder => ({
  type: 'StartCommand',
  agentId: 'agent',
  commandId,
  generation: 1,
  command,
  ...times,
});
const end = (commandId: string): CommandsOrder => ({
  type: 'EndCommand',
  commandId,
  end: 'exited',
  exitCode: 0,
  outputBytes: 10,
  droppedBytes: 0,
});
const remove = (commandId: string): CommandsOrder => ({ type: 'RemoveCommand', commandId });
const input = (commandId: string, actId: string): CommandsOrder => ({ type: 'SendInput', commandId, actId, bytes: 3, closes: false });
const signal = (commandId: string, actId: string): CommandsOrder => ({ type: 'SendSignal', commandId, actId, signal: 'SIGINT' });

const decided = (order: CommandsOrder, state: AgentCommandsState) => commandsDecider.decide(order, state, NOON);
const after = (state: AgentCommandsState, ...orders: CommandsOrder[]) =>
  orders.reduce((now, order) => decided(order, now).reduce(commandsDecider.evolve, now), state);
const ids = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `command ${from + n}`);
const full = after(null, ...ids(RUNNING_MAX).map(start));

describe('the long-running commands of an agent', () => {
  it('are refused while sixteen run, until one has ended or was removed', () => {
    expect(refusalOf(() => decided(start('one more'), full))).toMatchObject({
      code: 'rate_limited',
      message: expect.stringMatching(/^16 /),
    });
    for (const gone of [end('command 3'), remove('command 3')])
      expect(decided(start('one more'), after(full, gone))).toMatchObject([{ type: 'AgentCommandStarted' }]);
  });

  it('are started once under one id, whether they have ended or not', () => {
    const started = after(null, start('the same'));
    for (const state of [started, after(started, end('the same'))]) expect(decided(start('the same'), state)).toEqual([]);
  });

  it('end once, and never before they were started', () => {
    const ended = after(full, end('command 3'));
    expect(decided(end('command 3'), ended)).toEqual([]);
    expect(decided(end('never started'), null)).toEqual([]);
    expect(decided(end('command 3'), full)).toMatchObject([
      { type: 'AgentCommandEnded', data: { exit_code: 0, output_bytes: 10, drops: null } },
    ]);
  });

  it('are listed after their end, the last fifty of them', () => {
    const orders = ids(ENDED_MAX + 1).flatMap((id) => [start(id), end(id)]);
    const before = after(null, ...orders.slice(0, -1));
    expect(decided(end(`command ${ENDED_MAX}`), before)).toMatchObject([{ data: { drops: 'command 0' } }]);
    const state = after(before, end(`command ${ENDED_MAX}`));
    expect(state?.ended.map(({ id }) => id)).toEqual(ids(ENDED_MAX, 1));
    expect(findCommand(state, 'command 0')).toBeNull();
  });

  it('get no input and no signal once they have ended, and unknown ones never do', () => {
    const ended = after(full, end('command 3'));
    for (const order of [input, signal]) {
      expect(refusalOf(() => decided(order('command 3', 'a'), ended))?.code).toBe('invalid_state');
      expect(refusalOf(() => decided(order('unknown', 'a'), ended))?.code).toBe('not_found');
      expect(refusalOf(() => decided(order('unknown', 'a'), null))?.code).toBe('not_found');
    }
    expect(decided(input('command 4', 'a'), full)).toMatchObject([{ type: 'AgentCommandInputSent', data: { bytes: 3, closes: false } }]);
    expect(decided(signal('command 4', 'a'), full)).toMatchObject([{ type: 'AgentCommandSignaled', data: { signal: 'SIGINT' } }]);
  });

  it('get what one request sends once', () => {
    const sent = after(full, input('command 4', 'the same'));
    expect(refusalOf(() => decided(input('command 4', 'the same'), sent))?.code).toBe('invalid_state');
    expect(decided(input('command 4', 'another'), sent)).toHaveLength(1);
  });

  it('are deleted when they are removed, and then unknown', () => {
    for (const state of [full, after(full, end('command 3'))]) {
      expect(decided(remove('command 3'), state)).toMatchObject([{ type: 'AgentCommandRemoved' }]);
      const removed = after(state, remove('command 3'));
      expect(findCommand(removed, 'command 3')).toBeNull();
      expect(refusalOf(() => decided(remove('command 3'), removed))?.code).toBe('not_found');
      expect(decided(end('command 3'), removed)).toEqual([]);
    }
  });

  it('keep a bounded state in which each is listed once, for any sequence of events', () => {
    const acts = fc.array(fc.tuple(fc.constantFrom(start, end, remove, input, signal), fc.nat(120), fc.nat(300)), { maxLength: 400 });
    fc.assert(
      fc.property(acts, (steps) => {
        let state = null as AgentCommandsState;
        for (const [act, id, actId] of steps) {
          const refusal = refusalOf(() => (state = after(state, act(`command ${id}`, `act ${actId}`))));
          expect(['rate_limited', 'not_found', 'invalid_state', undefined]).toContain(refusal?.code);
          const { running = [], ended = [], latestActs = [] } = state ?? {};
          expect(running.length).toBeLessThanOrEqual(RUNNING_MAX);
          expect(ended.length).toBeLessThanOrEqual(ENDED_MAX);
          expect(latestActs.length).toBeLessThanOrEqual(LATEST_ACTS_MAX);
          const listed = [...running, ...ended].map((each) => each.id);
          expect(new Set(listed).size).toBe(listed.length);
          expect(running.some(hasEnded)).toBe(false);
        }
      }),
    );
  });
});
