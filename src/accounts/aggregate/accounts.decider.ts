import type { Decider, Json } from '../../platform/event-store/event-definition.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import type { AccountEvent } from './accounts.events.ts';
import { SeatMap } from './seat-map.decider.ts';

export interface Plan {
  name: string;
  seats: number;
  paymentMethod: boolean;
}

export interface Account {
  name: string;
  role: 'admin' | 'member';
  plan: Plan | null;
  /** Maps each agent that has a seat to the caller's own id for it, or to null if there is none. */
  seats: SeatMap<{ externalId: string | null }>;
  /** Maps each of the caller's own ids to its agent. */
  byExternalId: SeatMap<string>;
}

export type AccountCommand =
  | { type: 'OpenAccount'; name: string; role: 'admin' | 'member' }
  | ({ type: 'AssignPlan' } & Plan)
  | { type: 'TakeSeat'; agentId: string; externalId: string | null }
  | { type: 'ReleaseSeat'; agentId: string }
  | { type: 'SignIn'; sessionId: string; expiresAt: string }
  | { type: 'SignOut'; sessionId: string };

/** Decides for an account: its plan, and which agents hold its seats. The state is null before the account is opened. */
export const accountDecider: Decider<Account | null, AccountCommand, AccountEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'account', version: 1, toJson, fromJson },
};

type AccountJson = Omit<Account, 'seats' | 'byExternalId'> & {
  seats: [agentId: string, externalId: string | null][];
  byExternalId: [externalId: string, agentId: string][];
};

function toJson(account: Account | null): Json {
  if (account === null) return null;
  const seats = [...account.seats].map(([agentId, { externalId }]): [string, string | null] => [agentId, externalId]);
  return { ...account, plan: account.plan && { ...account.plan }, seats, byExternalId: [...account.byExternalId] };
}

function fromJson(json: Json): Account | null {
  if (json === null) return null;
  const account = json as unknown as AccountJson;
  const seats = account.seats.map(([agentId, externalId]): [string, { externalId: string | null }] => [agentId, { externalId }]);
  return { ...account, seats: SeatMap.of(seats), byExternalId: SeatMap.of(account.byExternalId) };
}

/** Returns the agent to which the caller's own id refers now, or null. */
export function agentFor(account: Account | null, externalId: string): string | null {
  return account?.byExternalId.get(externalId) ?? null;
}

export function accountNotFound(): Refusal {
  return new Refusal('account_not_found', 'There is no such account.');
}

function decide(command: AccountCommand, account: Account | null): AccountEvent[] {
  if (command.type === 'OpenAccount')
    return account === null ? [{ type: 'AccountOpened', data: { name: command.name, role: command.role } }] : [];
  if (account === null) throw accountNotFound();
  switch (command.type) {
    case 'AssignPlan':
      return assignPlan(command, account);
    case 'TakeSeat':
      return takeSeat(command, account);
    case 'ReleaseSeat':
      return account.seats.get(command.agentId) ? [{ type: 'SeatReleased', data: { agent_id: command.agentId } }] : [];
    case 'SignIn':
      return [{ type: 'SignedIn', data: { session_id: command.sessionId, expires_at: command.expiresAt } }];
    case 'SignOut':
      return [{ type: 'SignedOut', data: { session_id: command.sessionId } }];
  }
}

function assignPlan({ name, seats, paymentMethod }: Plan, { plan }: Account): AccountEvent[] {
  if (plan !== null && plan.name === name && plan.seats === seats && plan.paymentMethod === paymentMethod) return [];
  return [{ type: 'PlanAssigned', data: { plan: name, seats, payment_method: paymentMethod } }];
}

/** Returns no event if the agent has its seat already, or if another agent exists under the same external id. */
function takeSeat({ agentId, externalId }: { agentId: string; externalId: string | null }, account: Account): AccountEvent[] {
  if (account.seats.get(agentId)) return [];
  if (externalId !== null && agentFor(account, externalId) !== null) return [];
  const { plan } = account;
  if (plan === null || !plan.paymentMethod)
    throw new Refusal('plan_required', plan === null ? 'The account has no plan.' : 'The account has no payment method.');
  if (account.seats.size >= plan.seats)
    throw new Refusal('seat_limit', `All ${plan.seats} seats of the plan are taken.`, {
      members: { seats: plan.seats, seats_used: account.seats.size },
    });
  return [
    { type: 'SeatTaken', data: { agent_id: agentId, external_id: externalId } },
    { type: 'FirstMonthCharged', data: { agent_id: agentId } },
  ];
}

function evolve(account: Account | null, event: AccountEvent): Account | null {
  if (event.type === 'AccountOpened')
    return { name: event.data.name, role: event.data.role, plan: null, seats: SeatMap.empty(), byExternalId: SeatMap.empty() };
  if (account === null) return null;
  switch (event.type) {
    case 'PlanAssigned': {
      const { plan, seats, payment_method } = event.data;
      return { ...account, plan: { name: plan, seats, paymentMethod: payment_method } };
    }
    case 'SeatTaken': {
      const { agent_id, external_id } = event.data;
      const seats = account.seats.set(agent_id, { externalId: external_id });
      return {
        ...account,
        seats,
        byExternalId: external_id === null ? account.byExternalId : account.byExternalId.set(external_id, agent_id),
      };
    }
    case 'SeatReleased': {
      const externalId = account.seats.get(event.data.agent_id)?.externalId ?? null;
      const seats = account.seats.delete(event.data.agent_id);
      return { ...account, seats, byExternalId: externalId === null ? account.byExternalId : account.byExternalId.delete(externalId) };
    }
    case 'FirstMonthCharged':
    case 'SignedIn':
    case 'SignedOut':
      return account;
    default:
      event satisfies never;
      return account;
  }
}
