import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import type { KindRows, KnownSandbox, SandboxOfAccount } from '../../../sandboxes/index.ts';
import { AgentsThatMayWrite, EveryAgent, LiveAgentIds, type Agent } from '../../agents/index.ts';
import { NeededImages } from '../images/image-sweep.queries.ts';

/** Lists the agents of all accounts, to be compared with the engine. */
@Injectable()
export class AgentRows implements KindRows<Agent> {
  readonly readModels = ['agents', 'deployments'];

  constructor(private readonly queries: QueryBus) {}

  page(after: string | null, limit: number): Promise<KnownSandbox<Agent>[]> {
    return this.queries.execute(new EveryAgent(after, limit));
  }

  thatMayWrite(since: Date): Promise<SandboxOfAccount[]> {
    return this.queries.execute(new AgentsThatMayWrite(since));
  }

  live(): Promise<string[]> {
    return this.queries.execute(new LiveAgentIds());
  }

  neededImages(digests: readonly string[]): Promise<ReadonlySet<string>> {
    return this.queries.execute(new NeededImages(digests));
  }
}
