import { CommandBus } from '@nestjs/cqrs';

import { AssignPlan, accountEvents, OpenAccount } from '../../src/features/accounts/index.ts';
import { AccountsModule } from '../../src/features/accounts/accounts.module.ts';
import { agentEvents } from '../../src/features/agents/index.ts';
import { computerEvents } from '../../src/features/computers/index.ts';
import { ComputersModule } from '../../src/features/computers/computers.module.ts';
import { Computers } from '../../src/features/computers/services.ts';
import type { ComputerCommand } from '../../src/features/computers/aggregate/computers.decider.ts';
import { HistoryModule } from '../../src/features/history/history.module.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import type { Features } from './feature-server.ts';
import type { TestResponse, RequestOptions, TestServer } from './http-server.ts';

/** The features of computers without their containers. A `ComputerFixture` plays their saga. */
export const computerFeatures: Features = {
  modules: [AccountsModule, ComputersModule, HistoryModule],
  definitions: [accountEvents, agentEvents, computerEvents].flatMap((events) => Object.values(events)),
  // A machine with room for everything that tests create.
  environment: { MOORING_COMPUTERS_MEMORY_MAX_MB: '1000000' },
};

/** Creates computers of one account, and records what the engine would do with them. */
export class ComputerFixture {
  /** The account has no plan, unless `open` gave it one. */
  constructor(
    private readonly server: TestServer,
    readonly accountId: string,
  ) {}

  /** Opens an account with a plan for so many computers. */
  static async open(server: TestServer, name: string, computers?: number): Promise<ComputerFixture> {
    const commands = server.app.get(CommandBus);
    const context = systemContext('test', null);
    const email = `${name}@example.com`;
    const { account_id: accountId } = await commands.execute(
      new OpenAccount(context, { email, password: 'canary-password-1', name, role: 'member' }, null),
    );
    const plan = { name: 'team', seats: 0, paymentMethod: true, ...(computers === undefined ? {} : { computers }) };
    await commands.execute(new AssignPlan(systemContext('test', accountId), accountId, plan));
    return new ComputerFixture(server, accountId);
  }

  /** Sends a request with a key of the account. */
  ask(method: string, path: string, options: RequestOptions = {}): Promise<TestResponse> {
    return this.server.request(method, `/api/v1/computers${path}`, { credential: `mk_${this.accountId}_computers`, ...options });
  }

  async create(endUserId: string, more: object = {}): Promise<string> {
    const { json } = await this.ask('POST', '', { json: { end_user_id: endUserId, ...more } });
    return json.computer_id as string;
  }

  async awake(endUserId: string, more: object = {}): Promise<string> {
    const computerId = await this.create(endUserId, more);
    await this.record(computerId, { type: 'RecordImage', image: 'sha256:1', imageName: 'desk:1' });
    await this.ready(computerId);
    return computerId;
  }

  /** Records that the container is ready, and since when. */
  async ready(computerId: string, at?: Date): Promise<void> {
    const { state } = await this.computers.find(computerId);
    const generation = state?.generation ?? 0;
    await this.record(computerId, { type: 'RecordReady', generation, ...(at === undefined ? {} : { at: at.toISOString() }) });
  }

  async record(computerId: string, command: ComputerCommand): Promise<void> {
    await this.computers.execute(computerId, command, systemContext('computers', this.accountId));
  }

  /** Records the outcome as soon as the computer has that status. */
  async recordWhen(computerId: string, status: string, command: ComputerCommand): Promise<void> {
    const reached = await this.computers.until(
      computerId,
      async () => ((await this.computers.find(computerId)).state?.status === status ? true : undefined),
      { timeoutMs: 20_000 },
    );
    if (reached === null) throw new Error(`the computer did not become ${status}`);
    await this.record(computerId, command);
  }

  /** Same as `recordWhen`, while a request that waits for it is running. */
  recordLater(computerId: string, status: string, command: ComputerCommand): Promise<void> {
    this.recordWhen(computerId, status, command).catch((error: unknown) => console.error(error));
    return Promise.resolve();
  }

  /**
   * Stops the container as soon as a stop of the computer in that status is requested, as the saga does; `after` runs before the stop is
   * recorded.
   */
  async stopWhenAsked(computerId: string, status: string, after: () => Promise<void>): Promise<void> {
    const isAsked = async () => {
      const { state } = await this.computers.find(computerId);
      return state?.status === status && state.wantedSleep === 'stopped' ? true : undefined;
    };
    if ((await this.computers.until(computerId, isAsked, { timeoutMs: 20_000 })) === null)
      throw new Error('the computer was not asked to stop');
    await after();
    await this.record(computerId, { type: 'RecordSlept', depth: 'stopped' });
  }

  private get computers(): Computers {
    return this.server.app.get(Computers, { strict: false });
  }
}
