import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { AuditController } from './audit/audit.controller.ts';
import { ExportAuditHandler, FindStaleCursorsHandler, ListAuditHandler } from './audit/audit.handlers.ts';
import { AuditEntries } from './audit/audit-entries.ts';
import { auditProjection } from './audit/audit.projection.ts';
import { ExplainStatusHandler } from './explain/explain.handlers.ts';
import { HistoryController } from './history.controller.ts';
import { FollowHistoryHandler, GetHistoryHandler } from './history.handlers.ts';
import { GetDiffHandler, GetPastStateHandler } from './time-travel/time-travel.handlers.ts';

@Module({
  imports: [AgentsModule],
  controllers: [HistoryController, AuditController],
  providers: [
    AuditEntries,
    GetHistoryHandler,
    FollowHistoryHandler,
    GetPastStateHandler,
    GetDiffHandler,
    ExplainStatusHandler,
    ListAuditHandler,
    ExportAuditHandler,
    FindStaleCursorsHandler,
  ],
})
export class HistoryModule {
  constructor(projections: Projections) {
    projections.register(auditProjection);
  }
}
