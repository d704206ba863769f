/** The intervals of the service's own work that no variable sets, in ms. The values are the product's; tests shorten them. */
export class Intervals {
  /** The interval at which the leases of this process are renewed. */
  leaseRenewMs = 3_000;
  /** The interval at which a process checks whether leases of others are free: the shards of a dead replica are acquired within it. */
  leasePollMs = 1_000;
  /** The time for which a reading of the log waits for further read models that want to join it. */
  foldGatherMs = 250;
  /** The wait before a saga repeats failed work for the first time. */
  sagaRetryMs = 1_000;
  /** The wait before the output of a container is captured again for the first time after a failure. */
  captureRetryMs = 500;
  /** The longest wait for the last lines of an ended container. */
  drainMs = 5_000;
}
