import type { Sealed } from '../../crypto/keyring.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';
import type { SubscriptionEvent } from './subscriptions.events.ts';

/** The host of a target, and its whole address encrypted. */
export interface SealedTarget {
  host: string;
  url: Sealed;
}

/** Selects events by their type and agent. Null selects all. */
export interface EventChoice {
  types: string[] | null;
  agentIds: string[] | null;
}

/** A subscription as callers see it. */
export interface ShownSubscription extends SealedTarget, EventChoice {
  accountId: string;
  subscriptionId: string;
  active: boolean;
  /** The time at which it was switched off because every delivery failed, ISO 8601; null if it is not so now. */
  switchedOffAt: string | null;
}

export interface Subscription extends ShownSubscription {
  secret: Sealed;
  deleted: boolean;
}

export type SubscriptionState = Subscription | null;

export type SubscriptionCommand =
  | ({ type: 'CreateSubscription'; accountId: string; subscriptionId: string; secret: Sealed } & SealedTarget & EventChoice)
  | { type: 'ChangeSubscription'; accountId: string; changes: { target?: SealedTarget; types?: string[] | null; active?: boolean } }
  | { type: 'DeleteSubscription'; accountId: string }
  | { type: 'RequestEventRedelivery'; accountId: string; eventId: string }
  | { type: 'SwitchSubscriptionOff'; failingSince: string }
  | { type: 'DeadLetterEvent'; eventId: string; attempts: number; reason: string };

/** Returns the account's subscription, which exists until it is deleted. Throws `not_found`. */
export function ownedSubscription(state: SubscriptionState, accountId: string): Subscription {
  if (state === null || state.deleted || state.accountId !== accountId)
    throw new ProblemError('not_found', 'There is no such subscription.');
  return state;
}

function decide(command: SubscriptionCommand, state: SubscriptionState): SubscriptionEvent[] {
  if (command.type === 'CreateSubscription') return create(command, state);
  if ('accountId' in command) ownedSubscription(state, command.accountId);
  if (state === null || state.deleted) return [];
  const ids = { account_id: state.accountId, subscription_id: state.subscriptionId };
  switch (command.type) {
    case 'ChangeSubscription':
      return change(command.changes, state);
    case 'DeleteSubscription':
      return [{ type: 'SubscriptionDeleted', data: ids }];
    case 'RequestEventRedelivery':
      return [{ type: 'EventRedeliveryRequested', data: { ...ids, event_id: command.eventId } }];
    case 'SwitchSubscriptionOff':
      return state.active ? [{ type: 'SubscriptionSwitchedOff', data: { ...ids, failing_since: command.failingSince } }] : [];
    case 'DeadLetterEvent': {
      const { eventId: event_id, attempts, reason } = command;
      return [{ type: 'EventDeadLettered', data: { ...ids, event_id, attempts, reason } }];
    }
  }
}

function create(command: Extract<SubscriptionCommand, { type: 'CreateSubscription' }>, state: SubscriptionState): SubscriptionEvent[] {
  const { accountId: account_id, subscriptionId: subscription_id, host, url, secret, types, agentIds: agent_ids } = command;
  // An earlier attempt of the same request has created it.
  if (state !== null && state.accountId === account_id && !state.deleted) return [];
  if (state !== null)
    throw new ProblemError('invalid_state', 'The subscription of this Idempotency-Key was created before, and has ended.');
  return [{ type: 'SubscriptionCreated', data: { account_id, subscription_id, host, url, secret, types, agent_ids } }];
}

function change(
  { target, types, active }: Extract<SubscriptionCommand, { type: 'ChangeSubscription' }>['changes'],
  state: Subscription,
): SubscriptionEvent[] {
  const changes = {
    ...(target === undefined ? {} : target),
    ...(types === undefined || same(types, state.types) ? {} : { types }),
    ...(active === undefined || active === state.active ? {} : { active }),
  };
  if (Object.keys(changes).length === 0) return [];
  return [{ type: 'SubscriptionChanged', data: { account_id: state.accountId, subscription_id: state.subscriptionId, changes } }];
}

function same(one: string[] | null, other: string[] | null): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type OfType<Type extends SubscriptionEvent['type']> = Extract<SubscriptionEvent, { type: Type }> & { at?: string };

/** Returns the subscription as it is created. */
export function createdSubscription(data: OfType<'SubscriptionCreated'>['data']): Subscription {
  const { account_id: accountId, subscription_id: subscriptionId, agent_ids: agentIds, host, url, secret, types } = data;
  return { accountId, subscriptionId, host, url, secret, types, agentIds, active: true, switchedOffAt: null, deleted: false };
}

/** Returns the subscription after a change that callers see. */
export function changedSubscription<S extends ShownSubscription>(
  subscription: S,
  event: OfType<'SubscriptionChanged' | 'SubscriptionSwitchedOff'>,
): S {
  if (event.type === 'SubscriptionSwitchedOff') return { ...subscription, active: false, switchedOffAt: event.at ?? null };
  const changed = { ...subscription, ...event.data.changes };
  return { ...changed, switchedOffAt: changed.active ? null : subscription.switchedOffAt };
}

function evolve(state: SubscriptionState, event: SubscriptionEvent & { at?: string }): SubscriptionState {
  if (event.type === 'SubscriptionCreated') return createdSubscription(event.data);
  if (state === null) return state;
  switch (event.type) {
    case 'SubscriptionChanged':
    case 'SubscriptionSwitchedOff':
      return changedSubscription(state, event);
    case 'SubscriptionDeleted':
      return { ...state, active: false, deleted: true };
    case 'EventDeadLettered':
    case 'EventRedeliveryRequested':
      return state;
    default:
      event satisfies never;
      return state;
  }
}

/** The rules of one subscription. The state is null before it is created. */
export const subscriptionDecider: Decider<SubscriptionState, SubscriptionCommand, SubscriptionEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'subscription', version: 2, subject: (subscription) => subscription?.subscriptionId ?? null },
};

/** Returns whether the subscription wants the event. */
export function wants({ types, agentIds }: EventChoice, event: { type: string; agentId: string | null }): boolean {
  const ofType = types === null || types.some((beginning) => event.type.startsWith(beginning));
  return ofType && (agentIds === null || (event.agentId !== null && agentIds.includes(event.agentId)));
}

/** The name of a subscription's stream. */
export function subscriptionStream(subscriptionId: string): string {
  return `subscription-${subscriptionId}`;
}
