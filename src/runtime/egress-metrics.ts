import { Injectable, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../kernel/observability/metrics.ts';
import { ContainerRuntime } from './runtime.ts';

/** Exports as metrics the refused traffic of agents, and whether the rules are enforced. */
@Injectable()
export class EgressMetrics implements OnModuleInit {
  constructor(
    private readonly runtime: ContainerRuntime,
    @Optional() private readonly metrics?: Metrics,
  ) {}

  onModuleInit(): void {
    this.metrics?.gauge(
      'mooring_agent_egress_refused_packets',
      'Packets of agents that were refused, by what they were going to.',
      async () => (await this.runtime.egress())?.refused ?? new Map<string, number>(),
      'to',
    );
    this.metrics?.gauge(
      'mooring_agent_egress_refused_requests',
      'Requests of agents with a list of names that their proxy refused, by reason.',
      async () => (await this.runtime.egress())?.refusedRequests ?? new Map<string, number>(),
      'why',
    );
    this.metrics?.gauge('mooring_agent_egress_enforced', '1 where agents are kept to what the operator lets them reach.', async () => {
      const status = await this.runtime.egress();
      return Number(status !== null && status.lack === null);
    });
    this.metrics?.gauge('mooring_agent_links_enforced', '1 where agents are kept from each other’s frames.', async () => {
      const status = await this.runtime.egress();
      return Number(status !== null && status.linkLack === null);
    });
  }
}
