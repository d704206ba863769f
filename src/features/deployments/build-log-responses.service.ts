import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { agentStream, GetAgent } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';
import { PAGE_BYTES_MAX } from '../../kernel/limits/page-bytes.ts';
import { EventWaits } from '../../eventsourcing/log/event-waits.ts';
import type { ServerSentEvent, Streamed } from '../../http/server/response-streams.ts';
import { ReadModels } from '../../eventsourcing/projections/projection.ts';
import { deploymentNotFound } from './deployments.errors.ts';
import { type DeploymentDto, toDeploymentDto, toDeploymentRecordDto } from './deployments.dto.ts';
import { FindDeployment, ListDeployments } from './deployments.queries.ts';
import type { DeploymentRow } from './deployments.table.ts';
import { buildLogChunks, buildLogStream, endOfBuildLog } from './records/build-log-reading.ts';

/** A follower of a build log reads again after this time even without a notification, in ms. */
const REREAD_EVERY_MS = 60_000;

/** Responds with build logs, and follows growing ones. */
@Injectable()
export class BuildLogResponses {
  constructor(
    private readonly agents: Agents,
    private readonly events: EventStore,
    private readonly queries: QueryBus,
    private readonly readModels: ReadModels,
    private readonly waits: EventWaits,
  ) {}

  /** Lists the agent's deployments, newest first, with as much of the ends of their logs as a page has room for. Throws `agent_not_found`. */
  async list(accountId: string, agentId: string, limit: number): Promise<DeploymentDto[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const rows = await this.queries.execute(new ListDeployments(agentId, limit));
    const answers: DeploymentDto[] = [];
    let room = PAGE_BYTES_MAX;
    for (const row of rows) {
      const { lines, bytes, isCut } = await endOfBuildLog(this.events, row.id, room);
      room -= bytes;
      answers.push(toDeploymentDto(row, [...(isCut ? [leftOut(agentId, row.id)] : []), ...lines].join('\n')));
    }
    return answers;
  }

  /** Returns the current text of the log in pieces. Throws `agent_not_found`, `not_found`. */
  async read(accountId: string, agentId: string, deploymentId: string): Promise<Streamed> {
    const { id } = await this.find(accountId, agentId, deploymentId);
    return this.texts(id);
  }

  private async *texts(deploymentId: string): Streamed {
    for await (const { index, lines } of buildLogChunks(this.events, deploymentId, 0))
      yield `${index === 0 ? '' : '\n'}${lines.join('\n')}`;
  }

  /**
   * Returns the pieces of the log after the given one, then new ones as they are written, and finally the record of the ended deployment.
   * Throws what `read` throws.
   */
  async follow(
    accountId: string,
    agentId: string,
    deploymentId: string,
    after: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<ServerSentEvent>> {
    const { id } = await this.find(accountId, agentId, deploymentId);
    return this.pieces(agentId, id, after, signal);
  }

  private async *pieces(agentId: string, deploymentId: string, after: number, signal: AbortSignal): AsyncGenerator<ServerSentEvent> {
    using watch = this.waits.watch(buildLogStream(deploymentId), agentStream(agentId));
    let next = after + 1;
    while (!signal.aborted) {
      // The log is written before the outcome is recorded, so it is complete if the outcome was known before the log is read.
      const ended = await this.hasEnded(agentId, deploymentId);
      for await (const { index, lines } of buildLogChunks(this.events, deploymentId, next)) {
        yield { id: String(index), event: 'lines', data: lines };
        next = index + 1;
      }
      if (ended) return yield* this.end(agentId, deploymentId);
      await watch.next(REREAD_EVERY_MS, signal);
    }
  }

  private async hasEnded(agentId: string, deploymentId: string): Promise<boolean> {
    const deployment = (await this.agents.find(agentId)).state?.deployment;
    return deployment?.id !== deploymentId || ['success', 'failed', 'canceled'].includes(deployment.status);
  }

  private async *end(agentId: string, deploymentId: string): AsyncGenerator<ServerSentEvent> {
    await this.readModels.waitFor('deployments', await this.events.head('core'));
    const row = await this.queries.execute(new FindDeployment(agentId, deploymentId));
    if (row !== null) yield { event: 'end', data: toDeploymentRecordDto(row) };
  }

  private async find(accountId: string, agentId: string, deploymentId: string): Promise<DeploymentRow> {
    await this.agents.load(agentId, accountId);
    const row = await this.queries.execute(new FindDeployment(agentId, deploymentId));
    if (row === null) throw deploymentNotFound();
    return row;
  }
}

/** Returns the line that stands for those that a list leaves out of a build log. */
function leftOut(agentId: string, deploymentId: string): string {
  return `[Lines are left out here. GET /api/v1/agents/${agentId}/deployments/${deploymentId}/log returns all of them.]`;
}
