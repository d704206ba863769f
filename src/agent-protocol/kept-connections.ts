import { Agent, type ClientRequest, type RequestOptions } from 'node:http';
import type { Socket } from 'node:net';

import { connectToAgent } from './agent-connection.ts';
import { AgentNotLocated, type AgentEndpoint } from './agent-endpoint.ts';

/** The time for which a connection is kept without a request, ms. Servers that keep connections do so for at least a second. */
const IDLE_MS = 500;
/** The most connections that are kept for one port of a container, and for all. */
const IDLE_PER_ENDPOINT_MAX = 32;
const IDLE_MAX = 1_000;

interface EndpointOptions extends RequestOptions {
  endpoint: AgentEndpoint;
}

/**
 * Connects to agents, and keeps connections for half a second after a request, so that agents with much to do are not looked up and connected
 * to for each. A kept connection is used again for the same container alone: an engine may give the address of a container that ended to
 * another one, but no connection moves there.
 */
class KeptConnections extends Agent {
  private readonly idle = new Set<Socket>();

  constructor() {
    super({ keepAlive: true, maxFreeSockets: IDLE_PER_ENDPOINT_MAX, scheduling: 'lifo' });
  }

  override getName(options?: RequestOptions): string {
    return (options as EndpointOptions).endpoint.key;
  }

  override createConnection(options: RequestOptions, onCreated?: (error: Error | null, socket: Socket) => void): undefined {
    const fail = onCreated as (error: Error) => void;
    const connected = (socket: Socket) => onCreated?.(null, socket.setNoDelay(true));
    (options as EndpointOptions).endpoint.locate().then(
      (address) => void connectToAgent(address).then(connected, fail),
      (error: unknown) => fail(new AgentNotLocated(error)),
    );
  }

  /** Returns false if the connection has to be closed. */
  override keepSocketAlive(socket: Socket): boolean {
    const keep = super.keepSocketAlive.bind(this) as (socket: Socket) => boolean;
    if (this.idle.size >= IDLE_MAX || !keep(socket)) return false;
    this.idle.add(socket);
    socket.setTimeout(IDLE_MS).on('data', endUnasked).on('close', this.forget);
    return true;
  }

  override reuseSocket(socket: Socket, asking: ClientRequest): void {
    this.idle.delete(socket);
    socket.setTimeout(0).off('data', endUnasked).off('close', this.forget);
    super.reuseSocket(socket, asking);
  }

  /** Closes the connections that are kept. */
  closeIdle(): void {
    for (const socket of this.idle) socket.destroy();
  }

  private readonly forget = (): void => {
    for (const socket of this.idle) if (socket.destroyed) this.idle.delete(socket);
  };
}

/** Closes a kept connection on which an agent sends what nobody asked for. */
function endUnasked(this: Socket): void {
  this.destroy();
}

/** The connections of this process to agents. */
export const keptConnections = new KeptConnections();

/** Returns the options of a request with which it goes to that endpoint. The `Host` header is `localhost`, which servers accept. */
export function optionsFor(endpoint: AgentEndpoint): RequestOptions {
  const options: EndpointOptions = { agent: keptConnections, endpoint, host: 'localhost' };
  return options;
}
