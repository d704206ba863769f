/** The intervals of the service's own work that no variable sets, in milliseconds. The values are the product's; tests shorten them. */
export class Intervals {
  /** The interval at which the leases of this process are renewed. */
  leaseRenewMs = 3_000;
  /**
   * The interval at which a process looks whether leases are free that others held: the shards of a dead replica are taken within it.
   */
  leaseLookMs = 1_000;
  /** The wait before a saga repeats for the first time what failed. */
  sagaRetryMs = 1_000;
}
