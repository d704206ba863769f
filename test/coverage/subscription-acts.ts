import { until } from '../support/until.ts';
import type { Act, World } from './act.ts';

/** The requests that change a subscription, in an order in which each can be called. */
export const subscriptionActs: Act[] = [
  {
    route: 'POST /api/v1/subscriptions',
    leaves: ['SubscriptionCreated'],
    by: 'key',
    status: 201,
    path: () => '/api/v1/subscriptions',
    json: () => ({ url: 'https://receiver.invalid/events' }),
  },
  {
    route: 'PATCH /api/v1/subscriptions/:subscriptionId',
    leaves: ['SubscriptionChanged'],
    by: 'key',
    status: 200,
    path: () => '/api/v1/subscriptions/:made',
    json: () => ({ types: ['Agent', 'ExecStarted'] }),
  },
  {
    route: 'POST /api/v1/subscriptions/:subscriptionId/deliveries/:eventId/redeliver',
    before: oneEventSent,
    leaves: ['EventRedeliveryRequested'],
    by: 'key',
    status: 202,
    path: () => `/api/v1/subscriptions/:made/deliveries/${sentEvent}/redeliver`,
  },
  {
    route: 'DELETE /api/v1/subscriptions/:subscriptionId',
    leaves: ['SubscriptionDeleted'],
    by: 'key',
    status: 204,
    path: () => '/api/v1/subscriptions/:made',
  },
];

let sentEvent = '';

async function oneEventSent(world: World): Promise<void> {
  const credential = world.key;
  await world.ask('POST', `/api/agents/${world.agentId}/exec`, { credential, json: { command: ['true'] } });
  const [subscription] = (await world.ask('GET', '/api/v1/subscriptions', { credential })).json as { id: string }[];
  sentEvent = await until('an event is to be sent', async () => {
    const deliveries = await world.ask('GET', `/api/v1/subscriptions/${subscription?.id}/deliveries`, { credential });
    return (deliveries.json as { event_id: string }[])[0]?.event_id;
  });
}
