import { CommandHandler, type ICommandHandler, QueryBus } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { type DeploymentRequest, transitionDeadlines } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import { Config } from '../../kernel/config/config.ts';
import { Clock } from '../../kernel/clock.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { DeploymentSources } from './sources/deployment-sources.service.ts';
import { CancelDeployment, DeployAgent, RollBackAgent, type WrittenDeployment } from './deployments.commands.ts';
import { deploymentNotFound } from './deployments.errors.ts';
import { FindDeployment, FindEarlierSuccess } from './deployments.queries.ts';
import type { DeploymentRow } from './deployments.table.ts';

/** Requests a deployment of the source on the agent's stream. */
async function request(
  agents: Agents,
  { accountId, agentId, context, seed }: DeployAgent | RollBackAgent,
  source: Omit<DeploymentRequest, 'deploymentId'>,
  deadlineAt: string,
): Promise<WrittenDeployment> {
  const deploymentId = seed === null ? uuidv7() : uuidv5('deployment', seed);
  const command = { type: 'DeployAgent' as const, accountId, deploymentId, deadlineAt, ...source };
  // A repeated request that arrives after the deployment has ended must not start it again.
  const once = seed === null ? {} : { eventId: () => uuidv5('deployment requested', seed) };
  return { deploymentId, agent: await agents.write(agentId, accountId, command, context, once) };
}

@CommandHandler(DeployAgent)
export class DeployAgentHandler implements ICommandHandler<DeployAgent> {
  constructor(
    private readonly agents: Agents,
    private readonly sources: DeploymentSources,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  async execute(deploy: DeployAgent): Promise<WrittenDeployment> {
    const { settings } = await this.agents.load(deploy.agentId, deploy.accountId);
    const source = await this.sources.resolve(deploy.accountId, settings, deploy.overrides);
    return request(this.agents, deploy, source, transitionDeadlines(this.config).deploy(this.clock.now()));
  }
}

@CommandHandler(RollBackAgent)
export class RollBackAgentHandler implements ICommandHandler<RollBackAgent> {
  constructor(
    private readonly agents: Agents,
    private readonly sources: DeploymentSources,
    private readonly clock: Clock,
    private readonly config: Config,
    private readonly queries: QueryBus,
  ) {}

  async execute(rollBack: RollBackAgent): Promise<WrittenDeployment> {
    const { agentId, accountId, earlierId } = rollBack;
    const { settings, deployment } = await this.agents.load(agentId, accountId);
    const earlier =
      earlierId === null
        ? await this.queries.execute(new FindEarlierSuccess(agentId, deployment?.id ?? ''))
        : await this.successful(agentId, earlierId);
    if (earlier === null) throw new ProblemError('invalid_state', 'The agent has no earlier successful deployment to go back to.');
    const source = this.sources.earlier(settings, earlier);
    return request(this.agents, rollBack, source, transitionDeadlines(this.config).deploy(this.clock.now()));
  }

  private async successful(agentId: string, deploymentId: string): Promise<DeploymentRow> {
    const row = await this.queries.execute(new FindDeployment(agentId, deploymentId));
    if (row === null) throw deploymentNotFound();
    if (row.status !== 'success')
      throw new ProblemError('invalid_state', `That deployment did not succeed (${row.status}), so there is nothing to go back to.`);
    return row;
  }
}

@CommandHandler(CancelDeployment)
export class CancelDeploymentHandler implements ICommandHandler<CancelDeployment> {
  constructor(
    private readonly agents: Agents,
    private readonly queries: QueryBus,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  async execute({ context, accountId, agentId, deploymentId }: CancelDeployment): Promise<WrittenDeployment> {
    const { deployment } = await this.agents.load(agentId, accountId);
    const isKnown = deployment?.id === deploymentId || (await this.queries.execute(new FindDeployment(agentId, deploymentId))) !== null;
    if (!isKnown) throw deploymentNotFound();
    const { startTimeoutSeconds } = this.config;
    const stopBy = transitionDeadlines(this.config).stop(this.clock.now());
    const command = { type: 'CancelDeployment' as const, accountId, deploymentId, stopBy, startTimeoutSeconds };
    return { deploymentId, agent: await this.agents.write(agentId, accountId, command, context) };
  }
}
