export { Activity } from './activity.service.ts';
export { agentsProjection } from './agents.projection.ts';
export { Agents } from './agents.service.ts';
export { AllowLists } from './allow-lists.service.ts';
export { ImageRegistries, RESOLVE_HOST } from './image-registries.service.ts';
export { WakeGate } from './wake-gate.service.ts';
