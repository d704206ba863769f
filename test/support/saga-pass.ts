import type { SagaPass } from '../../src/eventsourcing/sagas/saga.ts';

/** Creates a pass as a saga's runner does, but outside of any queue: it may always act, and always has its slot. */
export function freePass(change: Partial<SagaPass> = {}): SagaPass {
  const { signal } = new AbortController();
  return { signal, handover: signal, assertLease: () => undefined, withoutSlot: (work) => work(), setAccount: () => undefined, ...change };
}
