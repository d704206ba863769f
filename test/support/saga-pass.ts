import type { SagaPass } from '../../src/platform/sagas/saga.ts';

/** Makes a pass over the key as a saga's runner does, but outside of any queue: it may always act, and always has its slot. */
export function passOver(key: string, change: Partial<SagaPass> = {}): SagaPass {
  const { signal } = new AbortController();
  return { key, signal, handover: signal, mayAct: () => undefined, aside: (work) => work(), belongsTo: () => undefined, ...change };
}
