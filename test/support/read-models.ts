import { accountsProjection } from '../../src/features/accounts/accounts.projection.ts';
import { agentsProjection } from '../../src/features/agents/agents.projection.ts';
import { apiKeysProjection } from '../../src/features/api-keys/api-keys.projection.ts';
import { auditProjection } from '../../src/features/history/audit/audit.projection.ts';
import { computersProjection } from '../../src/features/computers/rows/computers.projection.ts';
import { computerCountsProjection } from '../../src/features/computers/usage/computer-counts.projection.ts';
import { computerIntervalsProjection } from '../../src/features/computers/usage/computer-intervals.projection.ts';
import { commandsProjection } from '../../src/features/commands/commands.projection.ts';
import { accountImagesProjection } from '../../src/features/deployments/images/account-images.projection.ts';
import { deploymentsProjection } from '../../src/features/deployments/deployments.projection.ts';
import { journalProjection, logLinesProjection } from '../../src/features/logs/entries/logs.projection.ts';
import { conversationsProjection } from '../../src/features/messages/conversations/conversations.projection.ts';
import { deliveriesProjection } from '../../src/features/messages/conversations/deliveries.projection.ts';
import { secretUsesProjection } from '../../src/features/environment/secret-uses.projection.ts';
import { subscriptionsProjection } from '../../src/features/subscriptions/subscriptions.projection.ts';
import { seatsProjection } from '../../src/features/provisioning/seats.projection.ts';
import { viewerSessionsProjection } from '../../src/features/computers/viewer/viewer-sessions.projection.ts';
import type { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { classOf, matches, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import type { Projection } from '../../src/eventsourcing/projections/projection.ts';

/** Returns the projections of all read models of the service. */
export function foldedProjections(catalogue: EventCatalogue): Projection[] {
  return [
    accountsProjection,
    apiKeysProjection,
    auditProjection,
    agentsProjection,
    deploymentsProjection,
    accountImagesProjection,
    conversationsProjection,
    deliveriesProjection,
    commandsProjection,
    computersProjection,
    viewerSessionsProjection,
    computerIntervalsProjection,
    computerCountsProjection,
    seatsProjection,
    subscriptionsProjection,
    secretUsesProjection,
    logLinesProjection,
    journalProjection((event) => catalogue.summaryOf(event)),
  ];
}

/** Returns whether the projection's filter accepts the event. */
export function follows({ filter }: Projection, event: StoredEvent): boolean {
  return filter.eventClass === classOf(event.stream) && matches(filter)(event);
}
