import type { Agent, AgentRecord } from '../../agents/index.ts';
import type { ContainerKind } from '../../../sandboxes/index.ts';
import type { AgentRecords } from '../records/agent-records.ts';
import type { AgentContainers } from './agent-containers.service.ts';
import type { AgentRows } from './agent-rows.service.ts';
import { agentRules } from './agent-rules.ts';
import type { AgentSteps } from './agent-steps.service.ts';
import type { OwnStep } from './next-step.rules.ts';

export type AgentKind = ContainerKind<Agent, AgentRecord, OwnStep>;

/** The token under which the kind is injected. */
export const AGENT_KIND = Symbol('the kind of sandboxes that agents are');

/** Returns the kind of sandboxes that agents are. */
export function agentKind(records: AgentRecords, containers: AgentContainers, rows: AgentRows, steps: AgentSteps): AgentKind {
  return { kind: 'agent', saga: 'deployments', rules: agentRules, records, containers, rows, steps };
}
