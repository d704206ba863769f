/** The intervals of the service's own work that no variable sets, in milliseconds. The values are the product's; tests shorten them. */
export class Intervals {
  /** The interval at which the leases of this process are renewed. */
  leaseRenewMs = 3_000;
  /**
   * The interval at which a process looks whether leases are free that others held: the shards of a dead replica are taken within it.
   */
  leaseLookMs = 1_000;
  /** The time for which a reading of the log waits for more read models that want to join it. */
  foldGatherMs = 250;
  /** The wait before a saga repeats for the first time what failed. */
  sagaRetryMs = 1_000;
  /** The wait before the output of a container is captured again for the first time after a failure. */
  captureRetryMs = 500;
  /** The longest wait for the last lines of an ended container. */
  drainMs = 5_000;
}
