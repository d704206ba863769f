import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import type { ContainerView, ListedContainer } from '../../../runtime/container.ts';

/** The number of rows that are read in one query. */
const PAGE = 500;

interface Run {
  handle: string;
  startedAt: string;
}

/**
 * Remembers for each agent the last run whose output is completely in the log, so that an exited container causes no work, even after a
 * restart. The row is not a guarantee: the output is captured once more before the container is removed.
 */
@Injectable()
export class DrainedRuns {
  private readonly runs = new Map<string, Run>();

  constructor(private readonly database: Database) {}

  has({ agentId, handle, startedAt }: ContainerView): boolean {
    const run = this.runs.get(agentId);
    return run?.handle === handle && run.startedAt === String(startedAt);
  }

  async add({ agentId, handle, startedAt }: ContainerView): Promise<void> {
    const run = { handle, startedAt: String(startedAt) };
    await this.database.query(
      `insert into drained_runs (agent_id, handle, started_at) values ($1, $2, $3)
       on conflict (agent_id) do update set handle = excluded.handle, started_at = excluded.started_at`,
      [agentId, run.handle, run.startedAt],
    );
    this.runs.set(agentId, run);
  }

  /** Deletes agents that have no container any more. */
  async delete(agentIds: readonly string[]): Promise<void> {
    if (agentIds.length > 0) await this.database.query('delete from drained_runs where agent_id = any($1)', [agentIds]);
    for (const agentId of agentIds) this.runs.delete(agentId);
  }

  /** Deletes all agents without a container. */
  async retainOnly(existing: ReadonlySet<string>): Promise<void> {
    await this.delete([...this.runs.keys()].filter((agentId) => !existing.has(agentId)));
  }

  /** Returns the first `limit` exited containers whose output is not known to be complete. */
  async firstMissing(ended: readonly ListedContainer[], limit: number): Promise<ListedContainer[]> {
    const isMissing = ({ agentId, handle }: ListedContainer) => this.runs.get(agentId)?.handle !== handle;
    const unknown = ended.filter(isMissing);
    const missing: ListedContainer[] = [];
    for (let at = 0; at < unknown.length && missing.length < limit; at += PAGE) {
      const page = unknown.slice(at, at + PAGE);
      await this.load(page.map(({ agentId }) => agentId));
      missing.push(...page.filter(isMissing));
    }
    return missing.slice(0, limit);
  }

  /** Loads rows that another process, or this one before its restart, may have stored. */
  private async load(agentIds: string[]): Promise<void> {
    const rows = await this.database.query<{ agent_id: string; handle: string; started_at: string }>(
      'select agent_id, handle, started_at from drained_runs where agent_id = any($1)',
      [agentIds],
    );
    for (const { agent_id, handle, started_at } of rows) this.runs.set(agent_id, { handle, startedAt: started_at });
  }
}
