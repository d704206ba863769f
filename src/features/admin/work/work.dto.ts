export class QueuedWorkDto {
  /** The number of keys that were woken by an event or a due time. */
  signals: number;
  /** The number of keys that are checked again in case something was missed. */
  reminders: number;
}

export class AccountWorkDto {
  /** The value is null for keys whose account is not known yet. */
  account_id: string | null;
  keys: number;
}

export class SagaWorkDto {
  saga: string;
  /** The numbers of keys that wait for a slot. */
  queued: QueuedWorkDto;
  /** The number of passes that hold a slot. */
  working: number;
  /** The number of passes that hold no slot because they wait for something slow, such as a pull or a reply. */
  aside: number;
  /** The number of keys that failed and wait for their retry. */
  retrying: number;
  /** The number of wakes that were dropped since the start because too many keys were queued; a later resync brings them back. */
  dropped: number;
  /** The longest time that a queued key has waited for a slot, in milliseconds. */
  oldest_wait_ms: number;
  /** The accounts with the most keys, at most ten. */
  top_accounts: AccountWorkDto[];
}
