export { Activity } from './activity/activity.service.ts';
export { agentsProjection } from './agents.projection.ts';
export { Agents } from './aggregate/agents.service.ts';
export { AllowLists } from './policies/allow-lists.service.ts';
export { ImageRegistries, RESOLVE_HOST } from './policies/image-registries.service.ts';
export { WakeGate } from './activity/wake-gate.service.ts';
