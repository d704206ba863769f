import fc from 'fast-check';

import { given, NOON } from '../../../../test/support/decider-spec.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import {
  CONNECTIONS_MAX,
  ENDED_MAX,
  isHumanInControl,
  mayControl,
  SESSIONS_MAX,
  viewersDecider,
  type ViewersCommand,
  type ViewersState,
} from './viewers.decider.ts';
import type { ViewerEvent } from './viewers.events.ts';

const computer = { computer_id: 'c1' };
const at = (seconds: number) => new Date(NOON.getTime() + seconds * 1_000).toISOString();
const create = (sessionId: string, more: Partial<Extract<ViewersCommand, { type: 'CreateSession' }>> = {}): ViewersCommand => ({
  type: 'CreateSession',
  computerId: 'c1',
  accountId: 'acme',
  sessionId,
  mode: 'control',
  exclusive: false,
  label: null,
  expiresAt: at(300),
  ...more,
});
const created = (session_id: string, more: object = {}): ViewerEvent => ({
  type: 'ViewerCreated',
  data: { ...computer, session_id, account_id: 'acme', mode: 'control', exclusive: false, label: null, expires_at: at(300), ...more },
});
const connected = (session_id: string, connection_id: string): ViewerEvent => ({
  type: 'ViewerConnected',
  data: { ...computer, session_id, connection_id, mode: 'control' },
});
const disconnected = (session_id: string, connection_id: string, seconds = 0): ViewerEvent => ({
  type: 'ViewerDisconnected',
  data: { ...computer, session_id, connection_id, seconds },
});
const closed = (session_id: string, reason: 'closed' | 'expired' = 'closed'): ViewerEvent => ({
  type: 'ViewerClosed',
  data: { ...computer, session_id, reason },
});
const many = <T>(count: number, make: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => make(n));

describe('a session', () => {
  it('is made once, also if it has ended since', () => {
    given(viewersDecider).when(create('s1')).then(created('s1'));
    given(viewersDecider, created('s1')).when(create('s1')).then();
    given(viewersDecider, created('s1'), closed('s1')).when(create('s1')).then();
  });

  it('is refused for a computer with too many, not counting expired ones', () => {
    const full = many(SESSIONS_MAX, (n) => created(`s${n}`));
    given(viewersDecider, ...full)
      .when(create('more'))
      .refuses('rate_limited');
    const [first, ...others] = full;
    const expired = created('old', { expires_at: at(-1) });
    given(viewersDecider, expired, ...others)
      .when(create('more'))
      .then(closed('old', 'expired'), created('more'));
    expect(first).toBeDefined();
  });

  it('with exclusive control is the only one', () => {
    const exclusive = created('s1', { exclusive: true });
    given(viewersDecider, exclusive)
      .when(create('s2', { exclusive: true }))
      .refuses('human_in_control');
    given(viewersDecider, exclusive).when(create('s2')).then(created('s2'));
    given(viewersDecider, exclusive, closed('s1'))
      .when(create('s2', { exclusive: true }))
      .then(created('s2', { exclusive: true }));
    given(viewersDecider, created('s1', { exclusive: true, expires_at: at(0) }))
      .when(create('s2', { exclusive: true }))
      .then(closed('s1', 'expired'), created('s2', { exclusive: true }));
  });
});

describe('a viewer', () => {
  const connect = (sessionId: string, connectionId: string): ViewersCommand => ({ type: 'ConnectViewer', sessionId, connectionId });

  it('connects to an open session', () => {
    given(viewersDecider, created('s1')).when(connect('s1', 'v1')).then(connected('s1', 'v1'));
    given(viewersDecider, created('s1'), connected('s1', 'v1')).when(connect('s1', 'v1')).then();
  });

  it('is refused by a session that is closed, has expired, or never was', () => {
    given(viewersDecider).when(connect('s1', 'v1')).refuses('session_closed');
    given(viewersDecider, created('s1'), closed('s1')).when(connect('s1', 'v1')).refuses('session_closed');
    given(viewersDecider, created('s1'))
      .when(connect('s1', 'v1'), new Date(at(300)))
      .refuses('session_closed');
  });

  it('gets the reason why the session is closed', () => {
    const { state } = given(viewersDecider, created('s1'), closed('s1', 'expired'));
    const refused = () => viewersDecider.decide(connect('s1', 'v1'), state, NOON);
    expect(refused).toThrow(expect.objectContaining({ facts: { members: { reason: 'expired' } } }));
  });

  it('is refused for a computer with too many viewers, in whatever sessions', () => {
    const events = [created('s1'), created('s2'), ...many(CONNECTIONS_MAX, (n) => connected(n % 2 ? 's1' : 's2', `v${n}`))];
    given(viewersDecider, ...events)
      .when(connect('s1', 'more'))
      .refuses('rate_limited');
    given(viewersDecider, ...events, disconnected('s2', 'v0'))
      .when(connect('s1', 'more'))
      .then(connected('s1', 'more'));
  });

  it('disconnects once', () => {
    const disconnect: ViewersCommand = { type: 'DisconnectViewer', connectionId: 'v1', seconds: 7 };
    given(viewersDecider, created('s1'), connected('s1', 'v1'))
      .when(disconnect)
      .then(disconnected('s1', 'v1', 7));
    given(viewersDecider, created('s1'), connected('s1', 'v1'), disconnected('s1', 'v1')).when(disconnect).then();
    given(viewersDecider).when(disconnect).then();
  });
});

describe('the end of sessions', () => {
  const close = (sessionIds: string[] | null): ViewersCommand => ({
    type: 'CloseSessions',
    sessionIds,
    reason: 'closed',
    times: [{ connectionId: 'v1', seconds: 9 }],
  });

  it('ends their connections first', () => {
    const events = [created('s1'), created('s2'), connected('s1', 'v1'), connected('s1', 'v2')];
    given(viewersDecider, ...events)
      .when(close(['s1']))
      .then(disconnected('s1', 'v1', 9), disconnected('s1', 'v2', 0), closed('s1'));
    given(viewersDecider, ...events)
      .when(close(null))
      .then(disconnected('s1', 'v1', 9), disconnected('s1', 'v2', 0), closed('s1'), closed('s2'));
  });

  it('changes nothing for those that have ended', () => {
    given(viewersDecider, created('s1'), closed('s1'))
      .when(close(['s1', 'other']))
      .then();
    given(viewersDecider).when(close(null)).then();
  });
});

describe('control', () => {
  const events = [created('alone', { exclusive: true }), created('s1'), created('seen', { mode: 'view' })];
  const control = (state: ViewersState) => ['alone', 's1', 'seen', 'other'].map((id) => mayControl(state, id));

  it('is that of every control session until one that is exclusive is connected', () => {
    expect(control(given(viewersDecider, ...events).state)).toEqual([true, true, false, false]);
    const taken = given(viewersDecider, ...events, connected('alone', 'v1')).state;
    expect(control(taken)).toEqual([true, false, false, false]);
    expect(isHumanInControl(taken)).toBe(true);
    const freed = given(viewersDecider, ...events, connected('alone', 'v1'), disconnected('alone', 'v1')).state;
    expect(control(freed)).toEqual([true, true, false, false]);
    expect(isHumanInControl(freed)).toBe(false);
  });

  it('is shared with agents while nobody has exclusive control', () => {
    expect(isHumanInControl(given(viewersDecider, ...events, connected('s1', 'v1')).state)).toBe(false);
    expect(isHumanInControl(null)).toBe(false);
  });
});

describe('any sequence of commands', () => {
  const sessionId = fc.integer({ min: 0, max: 60 }).map((n) => `s${n}`);
  const connectionId = fc.integer({ min: 0, max: 80 }).map((n) => `v${n}`);
  const command: fc.Arbitrary<ViewersCommand> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc
        .tuple(sessionId, fc.boolean(), fc.integer({ min: -5, max: 100 }))
        .map(([id, exclusive, seconds]) => create(id, { exclusive, expiresAt: at(seconds) })),
    },
    { weight: 6, arbitrary: fc.record({ type: fc.constant('ConnectViewer' as const), sessionId, connectionId }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('DisconnectViewer' as const), connectionId, seconds: fc.nat(9) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant('CloseSessions' as const),
        sessionIds: fc.array(sessionId, { maxLength: 3 }),
        reason: fc.constantFrom('closed' as const, 'asleep' as const),
        times: fc.constant([]),
      }),
    },
  );

  it('the bounds hold, an end is final, and every connection ends once', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(command, fc.integer({ min: 0, max: 50 })), { maxLength: 200 }), (commands) => {
        let state = viewersDecider.initialState();
        const ended = new Set<string>();
        const open = new Set<string>();
        for (const [each, seconds] of commands) {
          for (const event of decided(each, state, new Date(at(seconds)))) {
            expect(ended.has(event.data.session_id)).toBe(false);
            if (event.type === 'ViewerClosed') ended.add(event.data.session_id);
            if (event.type === 'ViewerConnected') {
              expect(open.has(`${event.data.session_id} ${event.data.connection_id}`)).toBe(false);
              open.add(`${event.data.session_id} ${event.data.connection_id}`);
            }
            if (event.type === 'ViewerDisconnected') expect(open.delete(`${event.data.session_id} ${event.data.connection_id}`)).toBe(true);
            state = viewersDecider.evolve(state, event);
          }
          const sessions = state?.sessions ?? [];
          expect(sessions.length).toBeLessThanOrEqual(SESSIONS_MAX);
          expect(sessions.flatMap(({ connections }) => connections).length).toBe(open.size);
          expect(open.size).toBeLessThanOrEqual(CONNECTIONS_MAX);
          expect(sessions.filter(({ exclusive }) => exclusive).length).toBeLessThanOrEqual(1);
          expect(state?.ended.length ?? 0).toBeLessThanOrEqual(ENDED_MAX);
        }
      }),
      { numRuns: 300 },
    );
  });
});

function decided(command: ViewersCommand, state: ViewersState, now: Date): ViewerEvent[] {
  try {
    return viewersDecider.decide(command, state, now);
  } catch (error) {
    if (error instanceof ProblemError) return [];
    throw error;
  }
}
