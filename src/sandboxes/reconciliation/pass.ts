import type { SagaPass } from '../../eventsourcing/sagas/saga.ts';
import type { ContainerHandle, ContainerView } from '../../runtime/container.ts';

/** The state of one pass over one sandbox. */
export interface Pass {
  sandboxId: string;
  /** The signal aborts when the saga has to end the pass. */
  signal: AbortSignal;
  /** Throws if another process may be working on the sandbox by now. */
  assertLease: () => void;
  /** Runs work that mostly waits, without holding up other passes. */
  withoutSlot: SagaPass['withoutSlot'];
  started: ContainerHandle | null;
  /** The container that the step under way created. */
  made: ContainerView | null;
  /** True after the engine refused a step once: the container may have changed since it was seen. */
  refused: boolean;
  /** True after the engine refused to freeze the container, which is stopped then. */
  freezeRefused: boolean;
}
