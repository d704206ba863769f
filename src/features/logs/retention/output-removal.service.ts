import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { agentStream } from '../../agents/index.ts';
import { EventStore, WrongExpectedRevision, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';
import { DrainedRuns } from '../output/drained-runs.ts';
import { LogRetention } from '../entries/log-entries.projection.ts';
import { totalOf } from './line-bound.ts';
import { LOG_JOURNAL_NAME, logLinesProjection } from '../entries/logs.projection.ts';

const REMOVAL_NAMESPACE = '8f2f4d0e-6d0b-4a4c-9e56-5a7d4f1c2b90';
const ATTEMPTS_MAX = 5;

/** Removes all output of an agent. */
@Injectable()
export class OutputRemoval {
  constructor(
    private readonly events: EventStore,
    private readonly readModels: ReadModels,
    private readonly retention: LogRetention,
    private readonly drained: DrainedRuns,
  ) {}

  /** Removes the output of an agent whose containers are removed. May be repeated. */
  async removeAll(agentId: string): Promise<void> {
    const stream = `log-${agentId}`;
    const last = await this.closeStream(stream);
    if (last !== null) await this.events.truncateStream(stream, last.revision);
    // The read models must catch up first, or they would insert rows after the removal.
    if (last !== null) await this.readModels.waitFor(logLinesProjection.name, last.position);
    const end = await this.last(agentStream(agentId));
    if (end !== null) await this.readModels.waitFor(LOG_JOURNAL_NAME, end.position);
    await this.retention.deleteAgent(agentId);
    await this.drained.delete([agentId]);
  }

  /**
   * Appends an event without lines, because a store keeps the last event of a stream. Returns the stream's last event; null if there is no
   * stream. A capture that still tries to append fails, reads the stream again, and finds no container.
   */
  private async closeStream(stream: string): Promise<Pick<StoredEvent, 'revision' | 'position'> | null> {
    for (let tries = 1; ; tries++) {
      const last = await this.last(stream);
      if (last === null || (last.data.lines as unknown[]).length === 0) return last;
      const event = {
        id: uuidv5(`${stream}:${last.revision + 1}`, REMOVAL_NAMESPACE),
        type: 'LogLinesCaptured',
        schemaVersion: 1,
        data: { lines: [], cursor: last.data.cursor ?? null, total: totalOf(last) },
        metadata: last.metadata,
      };
      try {
        return await this.events.append(stream, last.revision, [event]);
      } catch (error) {
        if (!(error instanceof WrongExpectedRevision) || tries === ATTEMPTS_MAX) throw error;
      }
    }
  }

  private async last(stream: string): Promise<StoredEvent | null> {
    for await (const last of this.events.readStream(stream, { backwards: true, limit: 1 })) return last;
    return null;
  }
}
