import { Module } from '@nestjs/common';
import { AgentsModule } from '../agents/agents.module.ts';
import { EventCatalogue } from '../../eventsourcing/event-store/event-catalogue.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { ReadShare } from '../../kernel/limits/read-share.ts';
import { OUTPUT_LINES } from './capture/line-rate.ts';
import { LogCapture } from './capture/log-capture.service.ts';
import { DrainedRuns } from './output/drained-runs.ts';
import { LineBound } from './retention/line-bound.ts';
import { ListLogEntriesHandler, LogRetention } from './entries/log-entries.projection.ts';
import { LogTail } from './entries/log-tail.service.ts';
import { journalProjection, logLinesProjection } from './entries/logs.projection.ts';
import { LogsController } from './logs.controller.ts';
import { LogsSaga } from './capture/logs.saga.ts';
import { LogResponses } from './log-responses.service.ts';
import { OutputRemoval } from './retention/output-removal.service.ts';
import { OutputRetentionSaga } from './retention/output-retention.saga.ts';

@Module({
  imports: [AgentsModule],
  controllers: [LogsController],
  providers: [
    LogCapture,
    LineBound,
    LogTail,
    LogRetention,
    LogsSaga,
    LogResponses,
    ListLogEntriesHandler,
    DrainedRuns,
    OutputRemoval,
    OutputRetentionSaga,
    { provide: ReadShare, useFactory: () => new ReadShare(OUTPUT_LINES) },
  ],
  exports: [LogCapture],
})
export class LogsModule {
  constructor(projections: Projections, catalogue: EventCatalogue) {
    projections.register(logLinesProjection);
    projections.register(journalProjection((stored) => catalogue.summaryOf(stored)));
  }
}
