/** The state of the container engine, in sentences that strangers may read. */
export interface EngineStatus {
  /** The reason why no agent is started on it; null if agents are. */
  lack: string | null;
  /** Faults that the operator can mend, and what agents lack on it. */
  warnings: readonly string[];
}
