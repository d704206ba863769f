import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { AgentAnswers, GetAgent } from '../agents/index.ts';
import { EventStore } from '../platform/event-store/event-store.ts';
import type { Call } from '../platform/http/call.ts';
import { invalidField, Refusal } from '../platform/errors/refusal.ts';
import { readBuildLog } from './records/build-log.ts';
import { repositoryRefusal, type SourceOverrides } from './sources/deployment-sources.decider.ts';
import { type DeploymentDto, type RestDeployDto, toDeploymentDto } from './deployments.dto.ts';
import { DeployAgent } from './deployments.commands.ts';
import { FindDeployment, ListDeployments } from './deployments.queries.ts';

export interface DeployAnswer {
  agent_id: string;
  deployment_id: string;
  status: string;
  message: string;
}

export interface RestDeployAnswer {
  agentId: string;
  deploymentId: string;
  status: string;
  message: string;
}

/** Answers HTTP requests about deployments. */
@Injectable()
export class DeploymentAnswers {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly agents: AgentAnswers,
    private readonly events: EventStore,
  ) {}

  async deploy(agentId: string, overrides: SourceOverrides, call: Call): Promise<DeployAnswer> {
    const { context, accountId, seed, wait } = call;
    const { deploymentId } = await this.commands.execute(new DeployAgent(context, accountId, agentId, overrides, seed));
    const { state } = await this.agents.settled(agentId, wait, call);
    return { agent_id: agentId, deployment_id: deploymentId, status: state.status, message: state.message };
  }

  async redeploy(body: RestDeployDto, call: Call): Promise<RestDeployAnswer> {
    const answer = await this.deploy(body.agentId.toLowerCase(), overridesOf(body), call);
    return { agentId: answer.agent_id, deploymentId: answer.deployment_id, status: answer.status, message: answer.message };
  }

  async list(accountId: string, agentId: string, limit: number): Promise<DeploymentDto[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const rows = await this.queries.execute(new ListDeployments(agentId, limit));
    return Promise.all(rows.map(async (row) => toDeploymentDto(row, await readBuildLog(this.events, row.id))));
  }

  async log(accountId: string, agentId: string, deploymentId: string): Promise<string> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const row = await this.queries.execute(new FindDeployment(agentId, deploymentId.toLowerCase()));
    if (row === null) throw new Refusal('not_found', 'The agent has no such deployment.');
    return readBuildLog(this.events, row.id);
  }
}

function overridesOf({ source, imageName, repoUrl, templateId }: RestDeployDto): SourceOverrides {
  const required = { github: ['repoUrl', repoUrl], docker: ['imageName', imageName], template: ['templateId', templateId] } as const;
  const [field, value] = required[source];
  if (value === undefined) throw invalidField(field, `must be given where source is ${source}`);
  if (source === 'github') throw repositoryRefusal('repoUrl');
  return source === 'docker' ? { imageName } : { templateId };
}
