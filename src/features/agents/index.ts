export {
  agentEvents,
  type AgentEvent,
  type AgentSettings,
  type DeploymentSource,
  type EarlierImage,
  type ImageChoice,
} from './aggregate/agents.events.ts';
export { deletionOf, newAgent } from './aggregate/agent-decisions.decider.ts';
export { type AgentRecord } from './aggregate/agent-records.decider.ts';
export type { AgentCommand, DeploymentRequest } from './aggregate/agents.decider.ts';
export { agentNotFound } from './aggregate/agents.errors.ts';
export {
  beginsTransition,
  deploymentStep,
  evolve as evolveAgent,
  isInTransit,
  type Agent,
  type AgentState,
  type Deployment,
  type Release,
} from './aggregate/agent-state.decider.ts';
export {
  branchRule,
  checked,
  Egress,
  EgressShape,
  externalIdRule,
  Given,
  IdleTtl,
  imageNameRule,
  nameRule,
  repoUrlRule,
  Text,
} from './fields/agent-fields.ts';
export { AgentAnswers } from './agent-answers.ts';
export { AgentWaits } from './agent-waits.ts';
export { agentStream } from './aggregate/agent-stream.ts';
export { AgentId, agentIdOf, AgentIdMember } from './fields/agent-id.ts';
export { AgentDto, AgentSettingsDto, RestAgentDto, toAgentDto, toRestAgentDto } from './agents.dto.ts';
export { AgentsThatMayWrite, EveryAgent, GetAgent, LiveAgentIds } from './agents.queries.ts';
export { agentsReadModel, type ShownAgent } from './agents.table.ts';
export { publicPathOf } from './public-url.ts';
export { startTimeoutOf, transitionDeadlines } from './aggregate/deadlines.decider.ts';
