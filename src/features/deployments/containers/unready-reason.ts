import type { HealthCheck } from '../../../agent-protocol/protocol.ts';
import { READINESS_CHECK_MS, type ReadinessCheck } from '../../../agent-protocol/readiness.ts';
import { requestName } from '../../../agent-protocol/request-name.ts';
import { type AgentAddress, programPortOf } from '../../../kernel/network/agent-address.ts';
import { type Listener, namesOf } from './listeners.ts';

/** A last look at a container that did not become ready in time. */
export interface UnreadyContainer {
  health: HealthCheck;
  address: AgentAddress;
  /** The result of a check after the time was over. */
  check: ReadinessCheck;
  /** The addresses on which programs in the container listen; null if they can't be seen. */
  listeners: readonly Listener[] | null;
}

const LONGER = 'if it needs longer to start, set start_timeout';
const OF_THE_AGENT = '(of the agent, or in mooring.json)';
const CHECK_S = READINESS_CHECK_MS / 1_000;

/** Returns what was requested and answered, and then what to do, as the end of a sentence about a container that is not ready. */
export function unreadyReason(container: UnreadyContainer): string {
  const { health, address, check } = container;
  const port = programPortOf(address);
  const request = 'path' in health ? requestName('GET', health.path, port) : `a connection to port ${port}`;
  switch (check.kind) {
    case 'ready':
      return `${request} succeeded only after that. Set a longer start_timeout.`;
    case 'status':
      return `${request} answered ${check.status}, and 2xx is needed: ${adviceOnStatus(check.status)}.`;
    default:
      return `${request}: ${outcomeOf(check)}${adviceOnConnection(container, check, port)}`;
  }
}

type FailedConnection = Exclude<ReadinessCheck, { kind: 'ready' | 'status' }>;

function outcomeOf(check: FailedConnection): string {
  switch (check.kind) {
    case 'refused':
      return 'connection refused';
    case 'unreachable':
      return 'no connection';
    case 'silent':
      return check.isConnected ? `no answer within ${CHECK_S} s` : `no connection within ${CHECK_S} s`;
    case 'closed':
      return 'the connection was closed without an answer';
    case 'no_http':
      return 'the answer is not HTTP';
  }
}

function adviceOnConnection({ health, address, listeners }: UnreadyContainer, check: FailedConnection, port: number): string {
  const isConnected = check.kind === 'closed' || check.kind === 'no_http' || (check.kind === 'silent' && check.isConnected);
  const onPort = listeners?.filter((each) => each.port === port) ?? [];
  const isReachable = onPort.some((each) => !each.isLoopback);
  // A port that the engine publishes accepts connections for a program that does not.
  if (isConnected && (listeners === null || isReachable)) return `. ${adviceOnAnswer(check, 'path' in health)}.`;
  if (listeners === null) return `. Let the program listen on the port in PORT; ${LONGER}.`;
  if (isReachable)
    return (
      `; the program listens on port ${port}, but its address, ${address.host}, is not reachable from the service. The operator has to set ` +
      'MOORING_AGENT_ADDRESSES, or do what the documentation says on “How agents are reached”.'
    );
  if (onPort.length > 0)
    return `; the program listens on ${namesOf(onPort)} alone, which nobody outside of the container reaches. Let it listen on 0.0.0.0.`;
  if (listeners.length === 0)
    return `; no program in the container listens on a port. Let the program listen on 0.0.0.0 and the port in PORT; ${LONGER}.`;
  return `; the program listens on ${namesOf(listeners)}. ${adviceOnPort(listeners)}.`;
}

function adviceOnAnswer({ kind }: FailedConnection, isHttp: boolean): string {
  if (!isHttp) return 'Let the program keep the connections open that it accepts';
  if (kind === 'silent') return `Let the program answer it without waiting for other work, or set health_path; ${LONGER}`;
  return 'Let the program answer with HTTP, or set health_path to "tcp"';
}

/** Returns what to do about a program that listens on other ports than the one in PORT. */
function adviceOnPort(listeners: readonly Listener[]): string {
  const open = listeners.filter(({ isLoopback }) => !isLoopback);
  const ports = new Set((open.length > 0 ? open : listeners).map(({ port }) => port));
  const setPort = ports.size === 1 ? `port set to ${[...ports].join('')}` : 'port set to the one that it answers on';
  const where = `on the port in PORT, or with ${setPort} ${OF_THE_AGENT}`;
  return open.length > 0 ? `Let it listen ${where}` : `Let it listen on 0.0.0.0, and ${where}`;
}

function adviceOnStatus(status: number): string {
  if (status >= 300 && status < 400) return 'let that path answer by itself, since redirects are not followed, or set health_path';
  if (status === 401 || status === 403) return 'let it answer without a credential, or set health_path';
  if (status === 404 || status === 405 || status === 410 || status === 501) return 'add such a route, or set health_path';
  if (status >= 500) return `let it answer so once the program is ready, or set health_path; ${LONGER}`;
  return 'let it answer so, or set health_path';
}
