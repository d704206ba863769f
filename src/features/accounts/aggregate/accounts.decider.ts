import type { Decider, Json } from '../../../eventsourcing/event-store/event-definition.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { AccountEvent } from './accounts.events.ts';
import { SeatMap } from './seat-map.rules.ts';

/** The number of computers that an account may have unless its plan says otherwise. */
export const DEFAULT_COMPUTERS = 20;

export interface Plan {
  name: string;
  /** The number of agents that the account may have. */
  seats: number;
  paymentMethod: boolean;
  /** The number of computers that the account may have. */
  computers: number;
}

export interface Account {
  name: string;
  role: 'admin' | 'member';
  plan: Plan | null;
  /** Maps each agent that has a seat to the caller's own id for it, or to null if there is none. */
  seats: SeatMap<{ externalId: string | null }>;
  /** Maps each of the caller's own ids to its agent. */
  byExternalId: SeatMap<string>;
  /** Maps each computer that has a seat to the end user whose desktop it is. */
  computers: SeatMap<{ endUserId: string }>;
  /** Maps each end user who has a computer to its id. */
  byEndUser: SeatMap<string>;
}

export type AccountCommand =
  | { type: 'OpenAccount'; name: string; role: 'admin' | 'member' }
  | ({ type: 'AssignPlan' } & Omit<Plan, 'computers'> & { computers?: number })
  | { type: 'TakeSeat'; agentId: string; externalId: string | null }
  | { type: 'ReleaseSeat'; agentId: string }
  | { type: 'TakeComputerSeat'; computerId: string; endUserId: string }
  | { type: 'ReleaseComputerSeat'; computerId: string }
  | { type: 'SignIn'; sessionId: string; expiresAt: string }
  | { type: 'SignOut'; sessionId: string };

/** The rules of an account: its plan, and which agents and computers hold its seats. The state is null before the account is opened. */
export const accountDecider: Decider<Account | null, AccountCommand, AccountEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'account', version: 2, toJson, fromJson },
};

type AccountJson = Omit<Account, 'seats' | 'byExternalId' | 'computers' | 'byEndUser'> & {
  seats: [agentId: string, externalId: string | null][];
  byExternalId: [externalId: string, agentId: string][];
  computers: [computerId: string, endUserId: string][];
};

function toJson(account: Account | null): Json {
  if (account === null) return null;
  const { name, role, plan } = account;
  const seats = [...account.seats].map(([agentId, { externalId }]): [string, string | null] => [agentId, externalId]);
  const computers = [...account.computers].map(([computerId, { endUserId }]): [string, string] => [computerId, endUserId]);
  return { name, role, plan: plan && { ...plan }, seats, byExternalId: [...account.byExternalId], computers };
}

function fromJson(json: Json): Account | null {
  if (json === null) return null;
  const { name, role, plan, ...seated } = json as unknown as AccountJson;
  const seats = seated.seats.map(([agentId, externalId]): [string, { externalId: string | null }] => [agentId, { externalId }]);
  const computers = seated.computers.map(([computerId, endUserId]): [string, { endUserId: string }] => [computerId, { endUserId }]);
  return {
    name,
    role,
    plan,
    seats: SeatMap.of(seats),
    byExternalId: SeatMap.of(seated.byExternalId),
    computers: SeatMap.of(computers),
    byEndUser: SeatMap.of(seated.computers.map(([computerId, endUserId]) => [endUserId, computerId])),
  };
}

/** Returns the agent that has the caller's own id at present, or null. */
export function agentFor(account: Account | null, externalId: string): string | null {
  return account?.byExternalId.get(externalId) ?? null;
}

/** Returns the end user's computer, or null. */
export function computerFor(account: Account | null, endUserId: string): string | null {
  return account?.byEndUser.get(endUserId) ?? null;
}

export function accountNotFound(): ProblemError {
  return new ProblemError('account_not_found', 'There is no such account.');
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
    case 'TakeComputerSeat':
      return takeComputerSeat(command, account);
    case 'ReleaseComputerSeat':
      return account.computers.get(command.computerId) ? [{ type: 'ComputerSeatReleased', data: { computer_id: command.computerId } }] : [];
    case 'SignIn':
      return [{ type: 'SignedIn', data: { session_id: command.sessionId, expires_at: command.expiresAt } }];
    case 'SignOut':
      return [{ type: 'SignedOut', data: { session_id: command.sessionId } }];
  }
}

function assignPlan(command: Extract<AccountCommand, { type: 'AssignPlan' }>, { plan }: Account): AccountEvent[] {
  const { name, seats, paymentMethod, computers } = command;
  const standing =
    plan?.name === name &&
    plan.seats === seats &&
    plan.paymentMethod === paymentMethod &&
    plan.computers === (computers ?? DEFAULT_COMPUTERS);
  if (standing) return [];
  return [
    {
      type: 'PlanAssigned',
      data: { plan: name, seats, payment_method: paymentMethod, ...(computers === undefined ? {} : { computers }) },
    },
  ];
}

/** Returns the account's plan. Throws `plan_required` if it has none, or no payment method. */
function requirePaidPlan({ plan }: Account): Plan {
  if (plan === null || !plan.paymentMethod)
    throw new ProblemError('plan_required', plan === null ? 'The account has no plan.' : 'The account has no payment method.');
  return plan;
}

/** Returns no event if the agent has its seat already, or if another agent exists under the same external id. */
function takeSeat({ agentId, externalId }: { agentId: string; externalId: string | null }, account: Account): AccountEvent[] {
  if (account.seats.get(agentId)) return [];
  if (externalId !== null && agentFor(account, externalId) !== null) return [];
  const plan = requirePaidPlan(account);
  if (account.seats.size >= plan.seats)
    throw new ProblemError('seat_limit', `All ${plan.seats} seats of the plan are taken.`, {
      members: { seats: plan.seats, seats_used: account.seats.size },
    });
  return [
    { type: 'SeatTaken', data: { agent_id: agentId, external_id: externalId } },
    { type: 'FirstMonthCharged', data: { agent_id: agentId } },
  ];
}

/** Returns no event if the end user has a computer already. The caller then gets that one, so that two concurrent requests make one computer. */
function takeComputerSeat({ computerId, endUserId }: { computerId: string; endUserId: string }, account: Account): AccountEvent[] {
  if (account.computers.get(computerId) || computerFor(account, endUserId) !== null) return [];
  const plan = requirePaidPlan(account);
  if (account.computers.size >= plan.computers)
    throw new ProblemError('computer_limit', `All ${plan.computers} computers of the plan exist.`, {
      members: { computers: plan.computers, computers_used: account.computers.size },
    });
  return [{ type: 'ComputerSeatTaken', data: { computer_id: computerId, end_user_id: endUserId } }];
}

/** Returns the account as it is opened. */
export function openedAccount({ name, role }: Extract<AccountEvent, { type: 'AccountOpened' }>['data']): Account {
  return {
    name,
    role,
    plan: null,
    seats: SeatMap.empty(),
    byExternalId: SeatMap.empty(),
    computers: SeatMap.empty(),
    byEndUser: SeatMap.empty(),
  };
}

/** Returns the plan that the event assigns. */
export function assignedPlan(data: Extract<AccountEvent, { type: 'PlanAssigned' }>['data']): Plan {
  const { plan: name, seats, payment_method: paymentMethod, computers = DEFAULT_COMPUTERS } = data;
  return { name, seats, paymentMethod, computers };
}

function evolve(account: Account | null, event: AccountEvent): Account | null {
  if (event.type === 'AccountOpened') return openedAccount(event.data);
  if (account === null) return null;
  switch (event.type) {
    case 'PlanAssigned':
      return { ...account, plan: assignedPlan(event.data) };
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
    case 'ComputerSeatTaken': {
      const { computer_id, end_user_id } = event.data;
      const computers = account.computers.set(computer_id, { endUserId: end_user_id });
      return { ...account, computers, byEndUser: account.byEndUser.set(end_user_id, computer_id) };
    }
    case 'ComputerSeatReleased': {
      const seat = account.computers.get(event.data.computer_id);
      if (seat === undefined) return account;
      const computers = account.computers.delete(event.data.computer_id);
      return { ...account, computers, byEndUser: account.byEndUser.delete(seat.endUserId) };
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
