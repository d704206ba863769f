import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { transitionDeadlines } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import { Config } from '../platform/config/config.ts';
import { Clock } from '../platform/clock.ts';
import type { Position } from '../platform/event-store/event-store.ts';
import { DeploymentSources } from './sources/deployment-sources.service.ts';
import { DeployAgent } from './deployments.commands.ts';

@CommandHandler(DeployAgent)
export class DeployAgentHandler implements ICommandHandler<DeployAgent> {
  constructor(
    private readonly agents: Agents,
    private readonly sources: DeploymentSources,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  async execute({ context, accountId, agentId, overrides, seed }: DeployAgent): Promise<{ deploymentId: string; position: Position }> {
    const { settings } = await this.agents.load(agentId, accountId);
    const source = await this.sources.resolve(accountId, settings, overrides);
    const deploymentId = seed === null ? uuidv7() : uuidv5('deployment', seed);
    const deadlineAt = transitionDeadlines(this.config).deploy(this.clock.now());
    const command = { type: 'DeployAgent' as const, accountId, deploymentId, deadlineAt, ...source };
    // A retry that arrives after the deployment has ended must not start it again.
    const once = seed === null ? {} : { eventId: () => uuidv5('deployment requested', seed) };
    const { position } = await this.agents.execute(agentId, command, context, once);
    return { deploymentId, position };
  }
}
