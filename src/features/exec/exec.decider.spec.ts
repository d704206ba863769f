import fc from 'fast-check';

import { NOON } from '../../../test/support/decider-spec.ts';
import { execDecider, LATEST_MAX, RUNNING_MAX, type AgentExecsState, type ExecCommand } from './exec.decider.ts';

const { decide, evolve } = execDecider;
const command = { v: 1 as const, key: 1, iv: 'iv', ct: 'ct' };
const at = (seconds: number) => new Date(NOON.getTime() + seconds * 1_000);
const startAt = (execId: string, seconds: number): ExecCommand => ({
  type: 'StartExec',
  agentId: 'agent',
  execId,
  command,
  location: null,
  timeoutSeconds: 60,
  endsBy: at(seconds + 70).toISOString(),
});

function after(state: AgentExecsState, asked: ExecCommand, seconds = 0): AgentExecsState {
  return decide(asked, state, at(seconds)).reduce(evolve, state);
}

const full = Array.from({ length: RUNNING_MAX }, (_, n) => `exec ${n}`).reduce<AgentExecsState>(
  (state, id) => after(state, startAt(id, 0)),
  null,
);

describe('the commands that run in an agent', () => {
  it('are refused while eight run, until one has ended', () => {
    expect(() => decide(startAt('one more', 0), full, NOON)).toThrow(expect.objectContaining({ code: 'rate_limited' }));
    const ended = after(full, { type: 'EndExec', execId: 'exec 3', exitCode: 0, timedOut: false, truncated: false });
    expect(decide(startAt('one more', 0), ended, NOON)).toMatchObject([{ type: 'ExecStarted', data: { exec_id: 'one more' } }]);
  });

  it('no longer count after their deadline, and their outcome is recorded as unknown', () => {
    const events = decide(startAt('one more', 71), full, at(71));
    expect(events.map(({ type }) => type)).toEqual([...Array<string>(RUNNING_MAX).fill('ExecFailed'), 'ExecStarted']);
    expect(events[0]).toEqual({ type: 'ExecFailed', data: { agent_id: 'agent', exec_id: 'exec 0', failure: 'unknown' } });
  });

  it('of a computer name it in every event', () => {
    const started = { ...startAt('one', 0), agentId: 'computer-7' } as ExecCommand;
    const state = after(null, started);
    const ended = decide({ type: 'EndExec', execId: 'one', exitCode: 0, timedOut: false, truncated: false }, state, NOON);
    for (const { data } of [...decide(started, null, NOON), ...ended]) {
      expect(data).toMatchObject({ computer_id: '7' });
      expect(data).not.toHaveProperty('agent_id');
    }
  });

  it('are not run again under the same id, whether they have ended or not', () => {
    const started = after(null, startAt('the same', 0));
    const ended = after(started, { type: 'EndExec', execId: 'the same', exitCode: 0, timedOut: false, truncated: false });
    const canceled = after(started, { type: 'FailExec', execId: 'the same', failure: 'canceled' });
    for (const state of [started, ended, canceled])
      expect(() => decide(startAt('the same', 0), state, at(500))).toThrow(expect.objectContaining({ code: 'invalid_state' }));
  });

  it('end once', () => {
    const canceled = after(full, { type: 'FailExec', execId: 'exec 3', failure: 'canceled' });
    expect(decide({ type: 'EndExec', execId: 'exec 3', exitCode: 0, timedOut: false, truncated: false }, canceled, NOON)).toEqual([]);
    expect(decide({ type: 'FailExec', execId: 'never started', failure: 'unknown' }, null, NOON)).toEqual([]);
  });

  it('keep a bounded state, for any sequence of events', () => {
    const acts = fc.array(fc.tuple(fc.constantFrom('start', 'end', 'fail'), fc.nat(30), fc.nat(200)), { maxLength: 300 });
    fc.assert(
      fc.property(acts, (steps) => {
        let state: AgentExecsState = null;
        let seconds = 0;
        steps.forEach(([act, id, wait], n) => {
          seconds += wait;
          const execId = act === 'start' ? `exec ${n}` : (state?.running[id % Math.max(1, state.running.length)]?.id ?? 'none');
          const asked: ExecCommand =
            act === 'start'
              ? startAt(execId, seconds)
              : act === 'end'
                ? { type: 'EndExec', execId, exitCode: 0, timedOut: false, truncated: false }
                : { type: 'FailExec', execId, failure: 'interrupted' };
          try {
            for (const event of decide(asked, state, at(seconds))) state = evolve(state, event);
          } catch (error) {
            expect(error).toMatchObject({ code: 'rate_limited' });
          }
          expect(state?.running.length ?? 0).toBeLessThanOrEqual(RUNNING_MAX);
          expect(state?.latest.length ?? 0).toBeLessThanOrEqual(LATEST_MAX);
        });
      }),
    );
  });
});

describe('the terminals of an agent', () => {
  it('are recorded when a ticket is issued, when one opens and when it closes, and change no state', () => {
    const asked: [ExecCommand, object][] = [
      [
        { type: 'IssueTerminalTicket', agentId: 'agent', expiresAt: 'then' },
        { type: 'TerminalTicketIssued', data: { agent_id: 'agent', expires_at: 'then' } },
      ],
      [
        { type: 'OpenTerminal', agentId: 'agent', terminalId: 't' },
        { type: 'TerminalOpened', data: { agent_id: 'agent', terminal_id: 't' } },
      ],
      [
        { type: 'CloseTerminal', agentId: 'agent', terminalId: 't', end: 'hung_up', exitCode: null },
        { type: 'TerminalClosed', data: { agent_id: 'agent', terminal_id: 't', end: 'hung_up', exit_code: null } },
      ],
    ];
    for (const state of [null, full])
      for (const [order, event] of asked) {
        expect(decide(order, state, NOON)).toEqual([event]);
        expect(after(state, order)).toBe(state);
      }
  });
});
