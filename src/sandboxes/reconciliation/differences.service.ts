import { Injectable } from '@nestjs/common';

import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { RuntimeList } from '../../runtime/container.ts';
import { RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import type { SagaKey } from '../../eventsourcing/sagas/saga.ts';
import { kindOf, type SandboxKind } from '../sandbox-id.ts';
import type { FollowedKind } from './container-kind.ts';
import type { KnownSandbox } from '../lifecycle/known-sandbox.ts';
import { ContainerSteps } from './container-steps.service.ts';
import { differs, type ListedResources } from './differences.rules.ts';

/** The number of rows that are read at a time. A longer page would block this thread for too long. */
const PAGE = 500;
/** The largest number of sandboxes that one search returns; the next search finds the rest. */
const FOUND_MAX = 5_000;
/** The most sandboxes unknown to the log that are remembered, so that they are left alone. */
const UNKNOWN_MAX = 10_000;

const NOTHING: ListedResources = { containers: [], volume: false };

/** Compares the engine with the rows of a kind's sandboxes. Lists both in bulk, and returns only the sandboxes that differ. */
@Injectable()
export class Differences {
  private readonly unknown = new Set<string>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly steps: ContainerSteps,
  ) {}

  /**
   * Lists the containers and volumes of all kinds. Returns null if the engine is unavailable. `maxAgeMs` is the age of the oldest
   * acceptable list.
   */
  async list(maxAgeMs: number): Promise<RuntimeList | null> {
    try {
      return await this.runtime.listCached(maxAgeMs);
    } catch (error) {
      if (error instanceof RuntimeUnavailable) return null;
      throw error;
    }
  }

  /**
   * Returns the sandboxes of the kind for which a pass would do something, and those that have containers or a volume but no row; at most
   * 5,000. The list is what the engine has, which kinds may share; null if that is not known.
   */
  async find(kind: FollowedKind, list: RuntimeList | null): Promise<SagaKey[]> {
    const { freeze } = await this.runtime.capabilities();
    const listed = list === null ? null : bySandbox(kind.kind, list);
    const rules = this.steps.rules(freeze);
    const found: SagaKey[] = [];
    let after: string | null = null;
    do {
      const page: KnownSandbox[] = await kind.rows.page(after, PAGE);
      const now = new Date();
      for (const known of page) {
        const { sandboxId, sandbox } = known;
        const there = listed === null ? null : (listed.get(sandboxId) ?? NOTHING);
        listed?.delete(sandboxId);
        if (!differs(kind.rules, known, there, rules, now)) continue;
        if (found.push({ key: sandboxId, account: sandbox.accountId }) >= FOUND_MAX) return found;
      }
      after = page.length < PAGE ? null : (page.at(-1)?.sandboxId ?? null);
    } while (after !== null);
    for (const sandboxId of listed?.keys() ?? []) if (!this.unknown.has(sandboxId)) found.push({ key: sandboxId, account: null });
    return found.slice(0, FOUND_MAX);
  }

  /** Excludes a sandbox that the log does not know from later searches. */
  ignore(sandboxId: string): void {
    if (this.unknown.size < UNKNOWN_MAX) this.unknown.add(sandboxId);
  }
}

/** Returns the containers and volumes of the kind's sandboxes. */
function bySandbox(kind: SandboxKind, { containers, volumes }: RuntimeList): Map<string, ListedResources> {
  const found = new Map<string, { containers: ListedResources['containers'][number][]; volume: boolean }>();
  for (const sandboxId of volumes) if (kindOf(sandboxId) === kind) found.set(sandboxId, { containers: [], volume: true });
  for (const container of containers) {
    if (kindOf(container.agentId) !== kind) continue;
    const seen = found.get(container.agentId);
    if (seen === undefined) found.set(container.agentId, { containers: [container], volume: false });
    else seen.containers.push(container);
  }
  return found;
}
