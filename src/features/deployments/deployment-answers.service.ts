import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { AgentAnswers, GetAgent } from '../agents/index.ts';
import { PAGE_BYTES_MAX } from '../../kernel/limits/page-bytes.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';
import type { Call } from '../../http/server/call.ts';
import { endOfBuildLog } from './records/build-log.ts';
import type { SourceOverrides } from './sources/deployment-sources.decider.ts';
import { type DeploymentDto, type RestDeployDto, toDeploymentDto } from './deployments.dto.ts';
import { CancelDeployment, DeployAgent, RollBackAgent } from './deployments.commands.ts';
import { ListDeployments } from './deployments.queries.ts';

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
    const { context, accountId, seed } = call;
    const { deploymentId } = await this.commands.execute(new DeployAgent(context, accountId, agentId, overrides, seed));
    return this.answer(agentId, deploymentId, call);
  }

  async rollBack(agentId: string, earlierId: string | null, call: Call): Promise<DeployAnswer> {
    const { context, accountId, seed } = call;
    const { deploymentId } = await this.commands.execute(new RollBackAgent(context, accountId, agentId, earlierId, seed));
    return this.answer(agentId, deploymentId, call);
  }

  async cancel(agentId: string, deploymentId: string, call: Call): Promise<DeployAnswer> {
    await this.commands.execute(new CancelDeployment(call.context, call.accountId, agentId, deploymentId));
    return this.answer(agentId, deploymentId, call);
  }

  async redeploy(body: RestDeployDto, call: Call): Promise<RestDeployAnswer> {
    const { agentId, source, imageName, repoUrl, branch, templateId } = body;
    const overrides = { source, imageName, repoUrl, repoField: 'repoUrl', branch, templateId } as const;
    const answer = await this.deploy(agentId.toLowerCase(), overrides, call);
    return { agentId: answer.agent_id, deploymentId: answer.deployment_id, status: answer.status, message: answer.message };
  }

  async list(accountId: string, agentId: string, limit: number): Promise<DeploymentDto[]> {
    await this.queries.execute(new GetAgent(accountId, agentId));
    const rows = await this.queries.execute(new ListDeployments(agentId, limit));
    const answers: DeploymentDto[] = [];
    let room = PAGE_BYTES_MAX;
    for (const row of rows) {
      const { lines, bytes, isCut } = await endOfBuildLog(this.events, row.id, room);
      room -= bytes;
      answers.push(toDeploymentDto(row, [...(isCut ? [leftOut(agentId, row.id)] : []), ...lines].join('\n')));
    }
    return answers;
  }

  private async answer(agentId: string, deploymentId: string, call: Call): Promise<DeployAnswer> {
    const { state } = await this.agents.settled(agentId, call.wait, call);
    return { agent_id: agentId, deployment_id: deploymentId, status: state.status, message: state.message };
  }
}

/** Returns the line that stands for those that a list leaves out of a build log. */
function leftOut(agentId: string, deploymentId: string): string {
  return `[Lines are left out here. GET /api/v1/agents/${agentId}/deployments/${deploymentId}/log returns all of them.]`;
}
