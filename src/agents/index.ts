export { Activity } from './activity.service.ts';
export { AgentActivityRow, AgentRow } from './agent.entity.ts';
export { agentEvents, type AgentEvent, type AgentSettings, type ImageChoice } from './agent.events.ts';
export { deletionOf, newAgent } from './agent-decisions.decider.ts';
export { agentNotFound, type AgentCommand, type AgentRecord, type DeploymentRequest } from './agent.decider.ts';
export {
  beginsTransition,
  deploymentStep,
  evolve as evolveAgent,
  isInTransit,
  type Agent,
  type AgentState,
  type Deployment,
  type Release,
} from './agent-state.decider.ts';
export {
  branchRule,
  checked,
  descriptionRule,
  Egress,
  externalIdRule,
  Given,
  IdleTtl,
  imageNameRule,
  nameRule,
  repoUrlRule,
  Text,
} from './agent-fields.ts';
export { AgentAnswers } from './agent-answers.ts';
export { agentStream } from './agent-stream.ts';
export { Agents } from './agents.service.ts';
export { AllowLists } from './allow-lists.service.ts';
export { AgentId, AgentIdMember } from './agent-id.ts';
export { agentView, AgentView, ListQuery, restAgentView, RestAgentView } from './agent.dto.ts';
export { agentsProjection, EveryAgent, GetAgent, LiveAgentIds, type AgentInUse } from './agent.projection.ts';
export { restartTimeoutSeconds, transitionDeadlines } from './deadlines.ts';
export { ImageRegistries, RESOLVE_HOST } from './image-registries.service.ts';
export { WakeGate } from './wake-gate.service.ts';
export { AgentsModule } from './agents.module.ts';
