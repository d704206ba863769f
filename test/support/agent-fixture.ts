import { accountDecider } from '../../src/features/accounts/aggregate/accounts.decider.ts';
import { type AgentCommand, type AgentSettings } from '../../src/features/agents/index.ts';
import { Agents } from '../../src/features/agents/services.ts';
import { Aggregates } from '../../src/eventsourcing/aggregates/aggregates.ts';
import type { StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { v7 as uuidv7 } from 'uuid';
import { settings as usual } from './agents.ts';
import type { TestServer } from './http-server.ts';

const deadlineAt = () => new Date(Date.now() + 60_000).toISOString();

/** Creates agents without an engine: a test sends the commands that a saga would send. */
export class AgentFixture {
  constructor(private readonly server: TestServer) {}

  /** Opens the account, with the given number of seats. */
  async account(accountId: string, seats: number): Promise<void> {
    const aggregates = this.server.app.get(Aggregates, { strict: false });
    const context = systemContext('test', accountId);
    await aggregates.execute(`account-${accountId}`, accountDecider, { type: 'OpenAccount', name: accountId, role: 'member' }, context);
    const plan = { type: 'AssignPlan' as const, name: 'test', seats, paymentMethod: true };
    await aggregates.execute(`account-${accountId}`, accountDecider, plan, context);
  }

  /** Creates an agent that is not deployed. */
  async created(accountId: string, settings: Partial<AgentSettings> & { externalId?: string } = {}): Promise<string> {
    const agentId = uuidv7();
    const { externalId = null, ...given } = settings;
    await this.says(agentId, {
      type: 'ProvisionAgent',
      accountId,
      externalId,
      settings: { ...usual, ...given },
    });
    return agentId;
  }

  /** Creates an agent whose container runs. */
  async active(accountId: string, settings: Partial<AgentSettings> & { externalId?: string } = {}): Promise<string> {
    const agentId = await this.created(accountId, settings);
    await this.says(agentId, {
      type: 'DeployAgent',
      accountId,
      deadlineAt: deadlineAt(),
      deploymentId: uuidv7(),
      source: 'docker',
      imageName: 'nginx:1',
      repoUrl: null,
      branch: null,
      templateId: null,
    });
    await this.deployed(agentId);
    return agentId;
  }

  /** Sends the commands with which the saga records a successful deployment. */
  async deployed(agentId: string): Promise<void> {
    const { state } = await this.load(agentId);
    const deploymentId = state?.deployment?.id ?? '';
    await this.says(agentId, { type: 'RecordDeploymentStarted', deploymentId, deadlineAt: deadlineAt() });
    await this.says(agentId, {
      type: 'RecordImage',
      deploymentId,
      image: 'nginx@sha256:1',
      imageName: 'nginx:1',
      command: ['nginx'],
      commitSha: null,
    });
    await this.ready(agentId);
  }

  async ready(agentId: string): Promise<void> {
    const { state } = await this.load(agentId);
    await this.says(agentId, { type: 'RecordReady', generation: state?.generation ?? 0 });
  }

  async asleep(accountId: string): Promise<string> {
    const agentId = await this.active(accountId);
    await this.says(agentId, { type: 'SleepAgent', accountId, depth: 'frozen', reason: 'idle', deadlineAt: deadlineAt() });
    await this.says(agentId, { type: 'RecordSlept', depth: 'frozen' });
    return agentId;
  }

  async says(agentId: string, command: AgentCommand) {
    const accountId = 'accountId' in command ? command.accountId : ((await this.load(agentId)).state?.accountId ?? null);
    return this.server.app.get(Agents, { strict: false }).execute(agentId, command, systemContext('test', accountId));
  }

  load(agentId: string) {
    return this.server.app.get(Agents, { strict: false }).find(agentId);
  }

  /** Returns all events of the agent so far. */
  async events(agentId: string): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    for await (const event of this.server.app.get(Agents, { strict: false }).events(agentId)) events.push(event);
    return events;
  }

  async types(agentId: string): Promise<string[]> {
    return (await this.events(agentId)).map((event) => event.type);
  }
}
