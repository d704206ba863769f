import { Injectable } from '@nestjs/common';
import { CommandBus, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';

import { ReleaseSeat } from '../accounts/index.ts';
import { Config } from '../../kernel/config/config.ts';
import { Clock } from '../../kernel/clock.ts';
import { checkRevision } from '../../http/responses/etag.ts';
import { requireVisible, type AgentCommand } from './aggregate/agents.decider.ts';
import { Agents } from './aggregate/agents.service.ts';
import { AllowLists } from './policies/allow-lists.service.ts';
import { transitionDeadlines } from './aggregate/deadlines.rules.ts';
import { RunSettingBounds } from './policies/run-setting-bounds.service.ts';
import { SourceHosts } from './policies/source-hosts.service.ts';
import {
  ConfigureAgent,
  DeleteAgent,
  RestartAgent,
  SleepAgent,
  StartAgent,
  StopAgent,
  type AgentWrite,
  type AgentWriteResult,
} from './agents.commands.ts';

/** Executes commands on the agent's stream. */
@Injectable()
export class AgentWriter {
  constructor(
    private readonly agents: Agents,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  get startTimeoutSeconds(): number {
    return this.config.startTimeoutSeconds;
  }

  /** Returns the deadline of a transition that begins now. */
  deadlineOf(transition: 'stop' | 'sleep'): string {
    return transitionDeadlines(this.config)[transition](this.clock.now());
  }

  async write(write: AgentWrite<unknown>, command: AgentCommand): Promise<AgentWriteResult> {
    const { context, accountId, agentId } = write;
    const written = await this.agents.write(agentId, accountId, command, context, await this.requireMatch(write));
    return { ...written, wasActive: written.before?.status === 'active' };
  }

  /** Returns the revision at which the caller allows the write, which is the newest; none if any is allowed. Throws `revision_mismatch`. */
  private async requireMatch({ accountId, agentId, ifMatch }: AgentWrite<unknown>): Promise<{ expectedRevision?: number }> {
    if (ifMatch === null) return {};
    const { state, revision } = await this.agents.find(agentId);
    requireVisible(state, accountId);
    checkRevision(ifMatch, revision);
    return { expectedRevision: revision };
  }
}

@CommandHandler(StartAgent)
export class StartAgentHandler implements ICommandHandler<StartAgent> {
  constructor(private readonly writer: AgentWriter) {}

  execute(start: StartAgent): Promise<AgentWriteResult> {
    const { startTimeoutSeconds } = this.writer;
    return this.writer.write(start, { type: 'StartAgent', accountId: start.accountId, startTimeoutSeconds });
  }
}

@CommandHandler(StopAgent)
export class StopAgentHandler implements ICommandHandler<StopAgent> {
  constructor(private readonly writer: AgentWriter) {}

  execute(stop: StopAgent): Promise<AgentWriteResult> {
    return this.writer.write(stop, { type: 'StopAgent', accountId: stop.accountId, deadlineAt: this.writer.deadlineOf('stop') });
  }
}

@CommandHandler(RestartAgent)
export class RestartAgentHandler implements ICommandHandler<RestartAgent> {
  constructor(private readonly writer: AgentWriter) {}

  execute(restart: RestartAgent): Promise<AgentWriteResult> {
    const { startTimeoutSeconds } = this.writer;
    return this.writer.write(restart, { type: 'RestartAgent', accountId: restart.accountId, startTimeoutSeconds });
  }
}

@CommandHandler(SleepAgent)
export class SleepAgentHandler implements ICommandHandler<SleepAgent> {
  constructor(private readonly writer: AgentWriter) {}

  /** Requests a frozen sleep. If the engine can't freeze the container, the saga stops it and records that. */
  execute(sleep: SleepAgent): Promise<AgentWriteResult> {
    const { accountId } = sleep;
    const deadlineAt = this.writer.deadlineOf('sleep');
    return this.writer.write(sleep, { type: 'SleepAgent', accountId, depth: 'frozen', reason: 'requested', deadlineAt });
  }
}

@CommandHandler(ConfigureAgent)
export class ConfigureAgentHandler implements ICommandHandler<ConfigureAgent> {
  constructor(
    private readonly writer: AgentWriter,
    private readonly hosts: SourceHosts,
    private readonly allowLists: AllowLists,
    private readonly bounds: RunSettingBounds,
  ) {}

  async execute(configure: ConfigureAgent): Promise<AgentWriteResult> {
    const { accountId } = configure;
    const { changes, spelling } = configure.request;
    this.allowLists.refuseUnsupported(changes.egress);
    this.bounds.refuseBeyond(changes, spelling);
    await this.hosts.refuseImage(changes.image_name, accountId, spelling);
    await this.hosts.refuseRepository(changes.repo_url, accountId, spelling);
    return this.writer.write(configure, { type: 'ConfigureAgent', accountId, changes });
  }
}

@CommandHandler(DeleteAgent)
export class DeleteAgentHandler implements ICommandHandler<DeleteAgent> {
  constructor(
    private readonly writer: AgentWriter,
    private readonly agents: Agents,
    private readonly commands: CommandBus,
  ) {}

  async execute(remove: DeleteAgent): Promise<AgentWriteResult & { gone: boolean }> {
    const written = await this.writer.write(remove, { type: 'DeleteAgent', accountId: remove.accountId });
    const goneAt = await this.agents.untilDeleted(remove.agentId);
    if (goneAt === null) return { ...written, gone: false };
    // The caller's next creation may use the seat.
    await this.commands.execute(new ReleaseSeat(remove.context, remove.accountId, remove.agentId));
    return { ...written, position: goneAt, gone: true };
  }
}
