export { AgentActivityRow, AgentRow } from './agents.entity.ts';
export { agentEvents, type AgentEvent, type AgentSettings, type ImageChoice } from './agents.events.ts';
export { deletionOf, newAgent } from './agent-decisions.decider.ts';
export { agentNotFound, type AgentCommand, type AgentRecord, type DeploymentRequest } from './agents.decider.ts';
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
export { AgentId, AgentIdMember } from './agent-id.ts';
export { AgentDto, RestAgentDto, toAgentDto, toRestAgentDto } from './agents.dto.ts';
export { AgentsThatMayWrite, EveryAgent, GetAgent, LiveAgentIds, type AgentInUse, type AgentOfAccount } from './agents.queries.ts';
export { restartTimeoutSeconds, transitionDeadlines } from './deadlines.ts';
