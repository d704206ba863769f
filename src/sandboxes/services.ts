export { abandonedBy, Activity, HOLD_COUNTS, IDLE_FROM } from './activity/activity.service.ts';
export { LiveContainers } from './activity/live-containers.service.ts';
export { WakeGate } from './activity/wake-gate.service.ts';
export { Wakeables } from './activity/wakeables.ts';
export { EngineLimits } from './reconciliation/engine-limits.ts';
export { deadlineSignal, EngineView } from './reconciliation/engine-view.service.ts';
export { ContainerKinds } from './reconciliation/container-kinds.ts';
export { Differences } from './reconciliation/differences.service.ts';
export { Reconcilers, type Reconciler } from './reconciliation/reconciler.service.ts';
