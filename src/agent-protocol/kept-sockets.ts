import type { Socket } from 'node:net';

/** The agent to which a connection leads, and whose it is. */
export interface AgentOfAccount {
  agentId: string;
  accountId: string;
}

/** A bounded set of connections to agents, in which accounts have equal shares once it is full. */
export class KeptSockets {
  private readonly owners = new Map<Socket, AgentOfAccount>();
  /** The sockets of each account and of each agent that has any, the oldest first. */
  private readonly byAccount = new Map<string, Set<Socket>>();
  private readonly byAgent = new Map<string, Set<Socket>>();

  constructor(private readonly max: number) {}

  all(): Iterable<Socket> {
    return this.owners.keys();
  }

  /** Adds the socket, and destroys the oldest one of the account that has the most if there are too many then. */
  add(socket: Socket, owner: AgentOfAccount): void {
    this.delete(socket);
    this.owners.set(socket, owner);
    addTo(this.byAccount, owner.accountId, socket);
    addTo(this.byAgent, owner.agentId, socket);
    if (this.owners.size > this.max) this.evict();
  }

  delete(socket: Socket): void {
    const owner = this.owners.get(socket);
    if (owner === undefined) return;
    this.owners.delete(socket);
    deleteFrom(this.byAccount, owner.accountId, socket);
    deleteFrom(this.byAgent, owner.agentId, socket);
  }

  /** Destroys the agent's sockets. */
  destroyOf(agentId: string): void {
    for (const socket of this.byAgent.get(agentId) ?? []) this.destroy(socket);
  }

  private evict(): void {
    let largest: Set<Socket> | undefined;
    for (const sockets of this.byAccount.values()) if (sockets.size > (largest?.size ?? 0)) largest = sockets;
    const [oldest] = largest ?? [];
    if (oldest !== undefined) this.destroy(oldest);
  }

  private destroy(socket: Socket): void {
    this.delete(socket);
    socket.destroy();
  }
}

function addTo(index: Map<string, Set<Socket>>, key: string, socket: Socket): void {
  index.set(key, (index.get(key) ?? new Set<Socket>()).add(socket));
}

function deleteFrom(index: Map<string, Set<Socket>>, key: string, socket: Socket): void {
  const sockets = index.get(key);
  sockets?.delete(socket);
  if (sockets?.size === 0) index.delete(key);
}
