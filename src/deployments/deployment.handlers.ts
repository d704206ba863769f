import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { Agents, transitionDeadlines } from '../agents/index.ts';
import { Config } from '../platform/config/config.ts';
import { Clock } from '../platform/clock.ts';
import type { Position } from '../platform/event-store/event-store.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import type { SourceOverrides } from './deployment-source.decider.ts';
import { DeploymentSources } from './deployment-sources.service.ts';

/** Requests a deployment. Throws `deploy_in_progress`, `agent_not_found`, and `invalid_request` if there is nothing to deploy. */
export class DeployAgent extends Command<{ deploymentId: string; position: Position }> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly overrides: SourceOverrides,
    /** The seed of derived ids, the same for every retry of one request; null if the request has no idempotency key. */
    readonly seed: string | null,
  ) {
    super();
  }
}

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
