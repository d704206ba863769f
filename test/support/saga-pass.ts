import type { SagaPass } from '../../src/platform/sagas/saga.ts';

/** A pass over the key as a saga's runner makes it, outside of any queue: it may always act, and has its slot all the time. */
export function passOver(key: string, change: Partial<SagaPass> = {}): SagaPass {
  const { signal } = new AbortController();
  return { key, signal, handover: signal, mayAct: () => undefined, aside: (work) => work(), belongsTo: () => undefined, ...change };
}
