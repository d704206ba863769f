import { defineEvent, type EventsOf } from '../../../eventsourcing/event-store/event-definition.ts';

export const accountEvents = {
  AccountOpened: defineEvent<{ name: string; role: 'admin' | 'member' }>()(
    'AccountOpened',
    ({ role }) => `Opened the account, as ${role === 'admin' ? 'an administrator' : 'a member'}`,
  ),
  PlanAssigned: defineEvent<{
    plan: string;
    seats: number;
    payment_method: boolean;
    /** The number of computers that the account may have; absent means the default number. */
    computers?: number;
  }>()(
    'PlanAssigned',
    ({ plan, seats, payment_method, computers }) =>
      `Assigned the plan ${plan} with ${seats} seats${computers === undefined ? '' : ` and ${computers} computers`}, ` +
      `${payment_method ? 'with' : 'without'} a payment method`,
  ),
  SeatTaken: defineEvent<{ agent_id: string; external_id: string | null }>()(
    'SeatTaken',
    ({ agent_id }) => `Took a seat for agent ${agent_id}`,
  ),
  SeatReleased: defineEvent<{ agent_id: string }>()('SeatReleased', ({ agent_id }) => `Released the seat of agent ${agent_id}`),
  FirstMonthCharged: defineEvent<{ agent_id: string }>()(
    'FirstMonthCharged',
    ({ agent_id }) => `Charged the first month of agent ${agent_id}`,
  ),
  ComputerSeatTaken: defineEvent<{ computer_id: string; end_user_id: string }>()(
    'ComputerSeatTaken',
    ({ computer_id, end_user_id }) => `Took a seat for computer ${computer_id} of the end user ${end_user_id}`,
  ),
  ComputerSeatReleased: defineEvent<{ computer_id: string }>()(
    'ComputerSeatReleased',
    ({ computer_id }) => `Released the seat of computer ${computer_id}`,
  ),
  /** The session's id only names it and grants no access: the token is known only to its holder. */
  SignedIn: defineEvent<{ session_id: string; expires_at: string }>()(
    'SignedIn',
    ({ expires_at }) => `Signed in; the session ends ${expires_at} at the latest`,
  ),
  SignedOut: defineEvent<{ session_id: string }>()('SignedOut', () => 'Signed out'),
};

export type AccountEvent = EventsOf<typeof accountEvents>;
