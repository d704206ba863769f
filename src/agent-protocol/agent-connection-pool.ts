/**
 * Owns the connections to agents that no request uses at the moment, of this process. It does not own those in use, nor the addresses of agents.
 *
 * 1. A kept connection is used again for the same port of the same run of the same container alone, so it outlives none of them: an engine may
 *    give the address of a container that ended to another one, and a program that was frozen closes what it kept as soon as it goes on.
 * 2. A connection is kept for less time than the agent keeps it, so that no request is lost on one that the agent is just closing.
 * 3. At most 1,000 are kept, and 32 of one port. Beyond that the oldest one of the account that has the most is closed.
 */
import { Agent, request, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import type { Socket } from 'node:net';

import { type AgentAddress, programPortOf } from '../kernel/network/agent-address.ts';
import { connectToAgent } from './agent-connection.ts';
import { AgentNotLocated, type AgentEndpoint } from './agent-endpoint.ts';
import { KeptSockets, type AgentOfAccount } from './kept-sockets.ts';

/** The time for which a connection is kept without a request if the agent does not say how long it keeps it, in ms. Most servers do for 5 s. */
const KEPT_MS = 4_000;
/** The bound on the time that an agent names, in ms. */
const KEPT_MS_MAX = 15_000;
/** The time before the one that the agent names at which a connection is closed, in ms; for one below 2 s, half of it. */
const CLOSED_BEFORE_MS = 1_000;
/** The silence after which the system probes a kept connection, in ms, as by Node's default. */
const PROBED_AFTER_MS = 1_000;
/** The most connections that are kept for one port of a container, and for all. */
const KEPT_PER_ENDPOINT_MAX = 32;
const KEPT_MAX = 1_000;

interface EndpointOptions extends RequestOptions {
  endpoint: AgentEndpoint;
}

/** Connects to agents, and keeps connections after a request, so that an agent is not located and connected to for each. */
class AgentConnectionPool extends Agent {
  private readonly kept = new KeptSockets(KEPT_MAX);
  private readonly owners = new WeakMap<Socket, AgentOfAccount>();
  private readonly programPorts = new WeakMap<Socket, number>();
  /** The time for which the agent keeps the connection, as its last response says, in ms. */
  private readonly named = new WeakMap<Socket, number>();

  constructor() {
    super({ keepAlive: true, maxFreeSockets: KEPT_PER_ENDPOINT_MAX, scheduling: 'lifo' });
  }

  override getName(options?: RequestOptions): string {
    return (options as EndpointOptions).endpoint.key;
  }

  override createConnection(options: RequestOptions, onCreated?: (error: Error | null, socket: Socket) => void): undefined {
    const { endpoint } = options as EndpointOptions;
    const fail = onCreated as (error: Error) => void;
    const connected = (socket: Socket, address: AgentAddress) => {
      this.owners.set(socket, { agentId: endpoint.agentId, accountId: endpoint.accountId });
      this.programPorts.set(socket, programPortOf(address));
      onCreated?.(null, socket.setNoDelay(true));
    };
    endpoint.locate().then(
      (address) => void connectToAgent(address).then((socket) => connected(socket, address), fail),
      (error: unknown) => fail(new AgentNotLocated(error)),
    );
  }

  /** Returns the port of the connection as the agent's program knows it. */
  programPortOf(socket: Socket): number | undefined {
    return this.programPorts.get(socket);
  }

  /** Notes for how long the agent keeps the connection of its response. */
  readonly noteKeepAlive = ({ socket, headers }: IncomingMessage): void => {
    const seconds = /(?:^|[\s,;])timeout\s*=\s*"?(\d{1,6})/i.exec(String(headers['keep-alive'] ?? ''))?.[1];
    if (seconds === undefined) this.named.delete(socket);
    else this.named.set(socket, Number(seconds) * 1_000);
  };

  /** Returns false if the connection has to be closed. Node's own method is not called, because it closes what an agent keeps for one second. */
  override keepSocketAlive(socket: Socket): boolean {
    const [owner, ms] = [this.owners.get(socket), this.keptMs(socket)];
    if (owner === undefined || ms <= 0) return false;
    this.kept.add(socket, owner);
    socket.setKeepAlive(true, PROBED_AFTER_MS).unref();
    socket.setTimeout(ms).on('data', destroyUnexpected).on('close', dropClosed);
    return true;
  }

  override reuseSocket(socket: Socket, asking: ClientRequest): void {
    this.drop(socket);
    socket.setTimeout(0).off('data', destroyUnexpected).off('close', dropClosed);
    super.reuseSocket(socket, asking);
  }

  /** Counts the connection as kept no longer. */
  drop(socket: Socket): void {
    this.kept.delete(socket);
  }

  /** Closes the connections that are kept to the agent. */
  closeIdleOf(agentId: string): void {
    this.kept.destroyOf(agentId);
  }

  /** Closes the connections that are kept. */
  closeIdle(): void {
    for (const socket of this.kept.all()) socket.destroy();
  }

  private keptMs(socket: Socket): number {
    const named = this.named.get(socket);
    return named === undefined ? KEPT_MS : Math.min(named - Math.min(CLOSED_BEFORE_MS, named / 2), KEPT_MS_MAX);
  }
}

/** Removes a kept connection that is closed. */
function dropClosed(this: Socket): void {
  agentConnectionPool.drop(this);
}

/** Closes a kept connection on which an agent sends what nobody asked for. */
function destroyUnexpected(this: Socket): void {
  this.destroy();
}

/** The connections of this process to agents. */
export const agentConnectionPool = new AgentConnectionPool();

/** Begins a request to that endpoint. The `Host` header is `localhost`, which servers accept, unless the options have another one. */
export function requestTo(endpoint: AgentEndpoint, options: RequestOptions): ClientRequest {
  const own: EndpointOptions = { agent: agentConnectionPool, endpoint, host: 'localhost' };
  return request({ ...own, ...options }).once('response', agentConnectionPool.noteKeepAlive);
}
