export {
  agentEvents,
  type AgentEvent,
  type AgentSettings,
  type DeploymentSource,
  type EarlierImage,
  type ImageChoice,
  type ReleaseRun,
} from './aggregate/agents.events.ts';
export { deletionOf, newAgent } from './aggregate/agent-decisions.rules.ts';
export { type AgentRecord } from './aggregate/agent-records.rules.ts';
export type { AgentCommand, DeploymentRequest } from './aggregate/agents.decider.ts';
export { agentNotFound, isBeingDeployed } from './aggregate/agents.errors.ts';
export {
  beginsTransition,
  deploymentStep,
  evolve as evolveAgent,
  isInTransit,
  type Agent,
  type AgentState,
  type Deployment,
  type Release,
} from './aggregate/agent-state.rules.ts';
export {
  branchRule,
  validatedBy as checked,
  Egress,
  EgressShape,
  externalIdRule,
  OptionalField as Given,
  imageNameRule,
  nameRule,
  repoUrlRule,
  Text,
} from './fields/agent-fields.ts';
export { AgentResponses as AgentAnswers } from './agent-responses.ts';
export { AgentWaits } from './agent-waits.ts';
export { agentStream } from './aggregate/agent-stream.ts';
export { AgentId, agentIdOf, AgentIdMember } from './fields/agent-id.ts';
export { AgentDto, AgentSettingsDto, RestAgentDto, RestAgentSettingsDto, toAgentDto, toRestAgentDto } from './agents.dto.ts';
export { saidRunSettings } from './fields/run-setting-fields.ts';
export {
  ListAgentsThatMayWrite as AgentsThatMayWrite,
  ListAllAgents as EveryAgent,
  GetAgent,
  ListLiveAgentIds as LiveAgentIds,
} from './agents.queries.ts';
export { agentsReadModel, type AgentView as ShownAgent } from './agents.table.ts';
export { publicPathOf, publicUrlOf } from './public-url.ts';
export { startTimeoutOf, transitionDeadlines } from './aggregate/deadlines.rules.ts';
