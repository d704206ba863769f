import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { FastifyReply } from 'fastify';

import { AgentAnswers, agentView, GetAgent } from '../agents/index.ts';
import { EventStore } from '../platform/event-store/event-store.ts';
import type { Caller } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { invalidField, Refusal } from '../platform/errors/refusal.ts';
import { readBuildLog } from './build-log.ts';
import { repositoryRefusal, type SourceOverrides } from './deployment-source.decider.ts';
import { deploymentView, type DeploymentView, type RestDeployBody } from './deployment.dto.ts';
import { DeployAgent } from './deployment.handlers.ts';
import { FindDeployment, ListDeployments } from './deployment.projection.ts';

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

/** The parts of a request besides its body. */
export interface Asking {
  caller: Caller;
  context: CommandContext;
  seed: string | null;
  wait: number | null;
  reply: FastifyReply;
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

  async deploy({ caller, context, seed, wait, reply }: Asking, agentId: string, overrides: SourceOverrides): Promise<DeployAnswer> {
    const { accountId } = caller;
    const { deploymentId } = await this.commands.execute(new DeployAgent(context, accountId, agentId, overrides, seed));
    const { status, message } = await this.agents.settled(agentView, { context, accountId, agentId }, wait, reply);
    return { agent_id: agentId, deployment_id: deploymentId, status, message };
  }

  async redeploy(asking: Asking, body: RestDeployBody): Promise<RestDeployAnswer> {
    const answer = await this.deploy(asking, body.agentId.toLowerCase(), overridesOf(body));
    return { agentId: answer.agent_id, deploymentId: answer.deployment_id, status: answer.status, message: answer.message };
  }

  async list(accountId: string, agentId: string, limit: number): Promise<DeploymentView[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const rows = await this.queries.execute(new ListDeployments(agentId, limit));
    return Promise.all(rows.map(async (row) => deploymentView(row, await readBuildLog(this.events, row.id))));
  }

  async log(accountId: string, agentId: string, deploymentId: string): Promise<string> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const row = await this.queries.execute(new FindDeployment(agentId, deploymentId.toLowerCase()));
    if (row === null) throw new Refusal('not_found', 'The agent has no such deployment.');
    return readBuildLog(this.events, row.id);
  }
}

function overridesOf({ source, imageName, repoUrl, templateId }: RestDeployBody): SourceOverrides {
  const required = { github: ['repoUrl', repoUrl], docker: ['imageName', imageName], template: ['templateId', templateId] } as const;
  const [field, value] = required[source];
  if (value === undefined) throw invalidField(field, `must be given where source is ${source}`);
  if (source === 'github') throw repositoryRefusal('repoUrl');
  return source === 'docker' ? { imageName } : { templateId };
}
