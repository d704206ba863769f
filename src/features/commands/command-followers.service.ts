/*
 * Waits for the ends of commands in running containers, and wakes the commands' saga at each end.
 *
 * It owns the waits of this process. It does not own any fact: what it knows can be found out again by any process at any time.
 *
 * Invariants:
 * F1. A command is waited for at most once in this process.
 * F2. The waits under a lease end when the lease is handed over. The lease's signal gets one listener however many waits there are, because
 *     it may live for hours.
 * F3. A wait that fails wakes the saga after RETRY_MS, and the pass finds out why.
 */

import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';

import { pause } from '../../kernel/async/pause.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { Sagas } from '../../eventsourcing/sagas/saga.ts';

export const COMMANDS_SAGA = 'commands';
/** F3: the delay after a follower failed, or its container did not know the command yet, in ms. */
const RETRY_MS = 500;

/** The commands that are followed in one agent. */
export interface FollowedCommands {
  agentId: string;
  account: string;
  handle: ContainerHandle;
  commandIds: readonly string[];
}

/** Waits for the ends of commands in running containers, and wakes the saga at each end. */
@Injectable()
export class CommandFollowers implements BeforeApplicationShutdown {
  /** F1: maps an agent to the commands that are followed in it, and each command to the controller that ends its wait. */
  private readonly followed = new Map<string, Map<string, AbortController>>();
  /** F2: maps the signal of a lease to the controllers of the waits under it. */
  private readonly waitsByLease = new WeakMap<AbortSignal, Set<AbortController>>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly sagas: Sagas,
  ) {}

  /** Follows exactly these commands of the agent, until the signal aborts because another process takes over. */
  follow({ agentId, account, handle, commandIds }: FollowedCommands, handover: AbortSignal): void {
    const followed = this.followed.get(agentId) ?? new Map<string, AbortController>();
    for (const [id, ending] of followed) if (!commandIds.includes(id)) ending.abort();
    for (const id of commandIds) if (!isOpen(followed.get(id))) void this.waitForEnd({ agentId, account, handle, id }, handover);
  }

  /** Ends the waits for commands of the agent. */
  unfollow(agentId: string): void {
    for (const ending of this.followed.get(agentId)?.values() ?? []) ending.abort();
  }

  /** Returns whether all of these commands are followed here. */
  isFollowing(agentId: string, commandIds: readonly string[]): boolean {
    const followed = this.followed.get(agentId);
    return commandIds.every((id) => isOpen(followed?.get(id)));
  }

  beforeApplicationShutdown(): void {
    for (const agentId of this.followed.keys()) this.unfollow(agentId);
  }

  private async waitForEnd(
    { agentId, account, handle, id }: { agentId: string; account: string; handle: ContainerHandle; id: string },
    handover: AbortSignal,
  ): Promise<void> {
    const ending = new AbortController();
    const { signal } = ending;
    const followed = this.followed.get(agentId) ?? new Map<string, AbortController>();
    this.followed.set(agentId, followed.set(id, ending));
    const others = this.waitsOfLease(handover).add(ending);
    if (handover.aborted) ending.abort();
    const end = await this.runtime.commands.ended(handle, id, signal).catch(() => null);
    if (end === null) await pause(RETRY_MS, signal, { ref: false });
    others.delete(ending);
    if (followed.get(id) === ending) followed.delete(id);
    if (followed.size === 0 && this.followed.get(agentId) === followed) this.followed.delete(agentId);
    if (!signal.aborted) this.sagas.wake(COMMANDS_SAGA, agentId, account);
  }

  private waitsOfLease(handover: AbortSignal): Set<AbortController> {
    const known = this.waitsByLease.get(handover);
    if (known !== undefined) return known;
    const waits = new Set<AbortController>();
    this.waitsByLease.set(handover, waits);
    handover.addEventListener('abort', () => waits.forEach((wait) => wait.abort()), { once: true });
    return waits;
  }
}

function isOpen(wait: AbortController | undefined): boolean {
  return wait?.signal.aborted === false;
}
