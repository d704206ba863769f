export { agentActivityTable } from './activity/agent-activity.table.ts';
export { GetLastUse } from './last-use.queries.ts';
export { SandboxAggregates, type Written } from './sandbox-aggregates.ts';
export { containerLost } from './container-lost.ts';
export type { Need, NotAwake, Wakeable } from './activity/wakeable.ts';
export {
  computerIdOf,
  computerOf,
  computerSandbox,
  kindOf,
  ownerOf,
  sandboxIdOf,
  sandboxOfStream,
  streamOf,
  type SandboxKind,
  type SandboxOwner,
} from './sandbox-id.ts';
export type {
  ContainerKind,
  FollowedKind,
  KindContainers,
  KindRecords,
  KindRows,
  KindRules,
  KindSteps,
  RecordedSandbox as Seen,
  PassWork as Work,
} from './reconciliation/container-kind.ts';
export type { KnownSandbox, SandboxOfAccount } from './lifecycle/known-sandbox.ts';
export type { Pass } from './reconciliation/pass.ts';
export { executeOnce } from './reconciliation/recorded-once.ts';
