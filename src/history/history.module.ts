import { Module } from '@nestjs/common';

import { HistoryController } from './history.controller.ts';
import { FollowHistoryHandler, GetHistoryHandler } from './history.handlers.ts';

@Module({
  controllers: [HistoryController],
  providers: [GetHistoryHandler, FollowHistoryHandler],
})
export class HistoryModule {}
