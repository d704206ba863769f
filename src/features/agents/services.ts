export { agentsProjection } from './agents.projection.ts';
export { Agents } from './aggregate/agents.service.ts';
export { ReleaseRuns, type RunningRelease } from './running/release-runs.service.ts';
export { AllowLists } from './policies/allow-lists.service.ts';
export { RunSettingBounds } from './policies/run-setting-bounds.service.ts';
export { SourceHosts, RESOLVE_HOST } from './policies/source-hosts.service.ts';
export { AgentWakes } from './activity/agent-wakes.service.ts';
