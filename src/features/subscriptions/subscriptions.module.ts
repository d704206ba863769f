import { Module } from '@nestjs/common';

import { HistoryModule } from '../history/history.module.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { EventDeliveries } from './delivery/event-deliveries.ts';
import { EventSender } from './delivery/event-sender.service.ts';
import { Targets } from './delivery/targets.ts';
import { EventAttempts } from './event-attempts.service.ts';
import { EventIntake } from './event-intake.service.ts';
import { SubscriptionResponses } from './subscription-responses.service.ts';
import { SubscriptionWakes } from './subscription-wakes.service.ts';
import { SubscriptionsController } from './subscriptions.controller.ts';
import {
  ChangeSubscriptionHandler,
  CreateSubscriptionHandler,
  DeleteSubscriptionHandler,
  RedeliverEventHandler,
} from './subscriptions.handlers.ts';
import { ListAllSubscriptionsHandler, ListSubscriptionsHandler, subscriptionsProjection } from './subscriptions.projection.ts';
import { SubscriptionsSaga } from './subscriptions.saga.ts';

@Module({
  imports: [HistoryModule],
  controllers: [SubscriptionsController],
  providers: [
    CreateSubscriptionHandler,
    ChangeSubscriptionHandler,
    DeleteSubscriptionHandler,
    RedeliverEventHandler,
    ListSubscriptionsHandler,
    ListAllSubscriptionsHandler,
    SubscriptionResponses,
    SubscriptionWakes,
    SubscriptionsSaga,
    EventAttempts,
    EventDeliveries,
    EventIntake,
    EventSender,
    Targets,
  ],
})
export class SubscriptionsModule {
  constructor(projections: Projections) {
    projections.register(subscriptionsProjection);
  }
}
