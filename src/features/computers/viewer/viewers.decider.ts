/*
 * The rules of the viewer sessions of one computer, and of their connections. Pure.
 *
 * It owns who may connect and who controls. It does not own links and tickets (`ViewerLinks`, `ViewerBrowsers`), expiry without a command
 * (`ViewersSaga`), or the sockets.
 *
 * Invariants:
 * V1. A computer has at most SESSIONS_MAX open sessions and CONNECTIONS_MAX connections.
 * V2. At most one open session has exclusive control. While one of its viewers is connected, nobody else controls the computer.
 * V3. A session is created once under its id. One that has ended is never opened again.
 * V4. When a session is closed, the ends of its connections are recorded first, since nothing follows its own end.
 * V5. The state is bounded: of ended sessions, the last ENDED_MAX are remembered with their reason.
 */

import { invalidField, ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { Decider } from '../../../eventsourcing/event-store/event-definition.ts';
import { computerSandbox } from '../../../sandboxes/sandbox-id.ts';
import type { ViewerEnd, ViewerEvent, ViewerMode } from './viewers.events.ts';

/** V1: the most open sessions of a computer. */
export const SESSIONS_MAX = 50;
/** V1: the most connections to a computer, in all of its sessions. */
export const CONNECTIONS_MAX = 32;
/** V5: the number of ended sessions that are remembered. */
export const ENDED_MAX = 100;

export interface ViewerSession {
  id: string;
  mode: ViewerMode;
  exclusive: boolean;
  label: string | null;
  /** ISO 8601. */
  expiresAt: string;
  /** The ids of its connections. */
  connections: string[];
}

/** The sessions of a computer. */
export interface Viewers {
  computerId: string;
  accountId: string;
  /** The sessions that can be used; one that has expired may still be here. */
  sessions: ViewerSession[];
  /** V5: the sessions that ended last, oldest first. */
  ended: { id: string; reason: ViewerEnd }[];
}

export type ViewersState = Viewers | null;

/** A connection and its duration. */
export interface ConnectionTime {
  connectionId: string;
  seconds: number;
}

interface CreateSession {
  type: 'CreateSession';
  computerId: string;
  accountId: string;
  sessionId: string;
  mode: ViewerMode;
  exclusive: boolean;
  label: string | null;
  expiresAt: string;
}

interface CloseSessions {
  type: 'CloseSessions';
  /** The sessions to close; null stands for all. */
  sessionIds: readonly string[] | null;
  reason: ViewerEnd;
  /** The known durations of the viewers' connections. */
  times: readonly ConnectionTime[];
}

export type ViewersCommand =
  | CreateSession
  | { type: 'ConnectViewer'; sessionId: string; connectionId: string }
  | { type: 'DisconnectViewer'; connectionId: string; seconds: number }
  | CloseSessions;

/** Returns the open session of the id. Throws `session_closed` if it can't be used any more. */
export function openSession(state: ViewersState, sessionId: string, now: Date): ViewerSession {
  const session = state?.sessions.find(({ id }) => id === sessionId);
  if (session !== undefined && !hasExpired(session, now)) return session;
  const reason = session === undefined ? (state?.ended.find(({ id }) => id === sessionId)?.reason ?? 'closed') : 'expired';
  throw new ProblemError('session_closed', CLOSED[reason], { members: { reason } });
}

export const CLOSED: Record<ViewerEnd, string> = {
  closed: 'This session was closed.',
  expired: 'This session has expired.',
  asleep: 'This session was closed, because its computer went to sleep.',
  deleted: 'This session was closed, because its computer was deleted.',
  revoked: 'This session was closed, because the API key that its link was made with has ended.',
};

/** V2: returns whether a viewer with exclusive control is connected. */
export function isHumanInControl(state: ViewersState): boolean {
  return state?.sessions.some(({ exclusive, connections }) => exclusive && connections.length > 0) ?? false;
}

/** Returns whether input of the session's viewers reaches the desktop. */
export function mayControl(state: ViewersState, sessionId: string): boolean {
  const session = state?.sessions.find(({ id }) => id === sessionId);
  return session?.mode === 'control' && (session.exclusive || !isHumanInControl(state));
}

function hasExpired({ expiresAt }: ViewerSession, now: Date): boolean {
  return Date.parse(expiresAt) <= now.getTime();
}

function decide(command: ViewersCommand, state: ViewersState, now: Date): ViewerEvent[] {
  switch (command.type) {
    case 'CreateSession':
      return create(command, state, now);
    case 'ConnectViewer':
      return connect(command, state, now);
    case 'DisconnectViewer': {
      const { connectionId, seconds } = command;
      const session = state?.sessions.find(({ connections }) => connections.includes(connectionId));
      return session === undefined ? [] : [disconnected(state as Viewers, session, connectionId, seconds)];
    }
    case 'CloseSessions':
      return close(command, state);
  }
}

/** V3: creates the session, unless it was created before. */
function create(command: CreateSession, state: ViewersState, now: Date): ViewerEvent[] {
  const { computerId: computer_id, accountId: account_id, sessionId: session_id, mode, exclusive, label } = command;
  if (exclusive && mode === 'view') throw invalidField('exclusive', 'requires the mode control');
  const isIt = ({ id }: { id: string }) => id === session_id;
  if (state?.sessions.some(isIt) || state?.ended.some(isIt)) return [];
  const over = state?.sessions.filter((session) => hasExpired(session, now)) ?? [];
  const open = state?.sessions.filter((session) => !over.includes(session)) ?? [];
  if (open.length >= SESSIONS_MAX)
    throw new ProblemError('rate_limited', `This computer has ${SESSIONS_MAX} open sessions. Close some of them.`, {
      retryAfterSeconds: 60,
    });
  if (exclusive && open.some((session) => session.exclusive))
    throw new ProblemError('human_in_control', 'Another session has exclusive control of this computer. Close it first.');
  return [
    ...over.flatMap((session) => closed(state as Viewers, session, 'expired', [])),
    { type: 'ViewerCreated', data: { computer_id, session_id, account_id, mode, exclusive, label, expires_at: command.expiresAt } },
  ];
}

function connect(
  { sessionId, connectionId: connection_id }: Extract<ViewersCommand, { type: 'ConnectViewer' }>,
  state: ViewersState,
  now: Date,
): ViewerEvent[] {
  const { mode, connections } = openSession(state, sessionId, now);
  if (connections.includes(connection_id)) return [];
  const all = state?.sessions.flatMap((session) => session.connections) ?? [];
  if (all.length >= CONNECTIONS_MAX)
    throw new ProblemError('rate_limited', `${CONNECTIONS_MAX} viewers are connected to this computer already.`, { retryAfterSeconds: 10 });
  const data = { computer_id: state?.computerId ?? '', session_id: sessionId, connection_id, mode };
  return [{ type: 'ViewerConnected', data }];
}

function close({ sessionIds, reason, times }: CloseSessions, state: ViewersState): ViewerEvent[] {
  const meant = state?.sessions.filter(({ id }) => sessionIds === null || sessionIds.includes(id)) ?? [];
  return meant.flatMap((session) => closed(state as Viewers, session, reason, times));
}

/** V4: closes a session. */
function closed(state: Viewers, session: ViewerSession, reason: ViewerEnd, times: readonly ConnectionTime[]): ViewerEvent[] {
  const secondsOf = (id: string) => times.find(({ connectionId }) => connectionId === id)?.seconds ?? 0;
  return [
    ...session.connections.map((id) => disconnected(state, session, id, secondsOf(id))),
    { type: 'ViewerClosed', data: { computer_id: state.computerId, session_id: session.id, reason } },
  ];
}

function disconnected({ computerId }: Viewers, { id }: ViewerSession, connection_id: string, seconds: number): ViewerEvent {
  return { type: 'ViewerDisconnected', data: { computer_id: computerId, session_id: id, connection_id, seconds } };
}

function evolve(state: ViewersState, event: ViewerEvent): ViewersState {
  if (event.type === 'ViewerCreated') return created(state, event.data);
  if (state === null) return null;
  const { session_id } = event.data;
  const change = (update: (session: ViewerSession) => ViewerSession) => ({
    ...state,
    sessions: state.sessions.map((session) => (session.id === session_id ? update(session) : session)),
  });
  switch (event.type) {
    case 'ViewerConnected':
      return change((session) => ({ ...session, connections: [...session.connections, event.data.connection_id] }));
    case 'ViewerDisconnected':
      return change((session) => ({ ...session, connections: session.connections.filter((id) => id !== event.data.connection_id) }));
    case 'ViewerClosed': {
      const ended = [...state.ended, { id: session_id, reason: event.data.reason }].slice(-ENDED_MAX);
      return { ...state, sessions: state.sessions.filter(({ id }) => id !== session_id), ended };
    }
    default:
      event satisfies never;
      return state;
  }
}

function created(state: ViewersState, data: Extract<ViewerEvent, { type: 'ViewerCreated' }>['data']): Viewers {
  const { computer_id: computerId, account_id: accountId, session_id: id, mode, exclusive, label, expires_at: expiresAt } = data;
  const viewers = state ?? { computerId, accountId, sessions: [], ended: [] };
  return { ...viewers, sessions: [...viewers.sessions, { id, mode, exclusive, label, expiresAt, connections: [] }] };
}

export const viewersDecider: Decider<ViewersState, ViewersCommand, ViewerEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'viewers', version: 1, subject: (viewers) => (viewers === null ? null : computerSandbox(viewers.computerId)) },
};
