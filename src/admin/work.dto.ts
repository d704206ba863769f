export class QueuedWork {
  /** Keys with news. */
  signals: number;
  /** Keys without news, that are looked at again in case something was missed. */
  reminders: number;
}

export class AccountWork {
  /** Null: keys whose account is not known yet. */
  account_id: string | null;
  keys: number;
}

export class SagaWork {
  saga: string;
  /** The keys that wait for a slot. */
  queued: QueuedWork;
  /** Passes that hold a slot. */
  working: number;
  /** Passes that wait for something slow, such as a pull or a reply, without a slot. */
  aside: number;
  /** Keys that failed and wait for their retry. */
  retrying: number;
  /** Wakes that were dropped since the start because too many keys were known; a later look at all that may need work brings them back. */
  dropped: number;
  /** How long the work that waits longest for a slot has waited. */
  oldest_wait_ms: number;
  /** The accounts with the most keys, at most ten. */
  top_accounts: AccountWork[];
}
