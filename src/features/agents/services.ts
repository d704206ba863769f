export { agentsProjection } from './agents.projection.ts';
export { Agents } from './aggregate/agents.service.ts';
export { AllowLists } from './policies/allow-lists.service.ts';
export { SourceHosts, RESOLVE_HOST } from './policies/source-hosts.service.ts';
export { AgentWakes } from './activity/agent-wakes.service.ts';
