import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { ComputersModule } from '../computers/computers.module.ts';
import { DeploymentSources } from '../deployments/index.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { SandboxesModule } from '../../sandboxes/sandboxes.module.ts';
import { SecretsModule } from '../secrets/secrets.module.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { AgentPlans } from './agent-plans.service.ts';
import { ProvisionHandler } from './provisioning.handlers.ts';
import { ProvisioningController } from './provisioning.controller.ts';
import { SeatHolders } from './seat-holders.service.ts';
import { ListUnusedSeatsHandler, seatsProjection } from './seats.projection.ts';
import { SeatsSaga } from './seats.saga.ts';

@Module({
  imports: [AgentsModule, ComputersModule, SandboxesModule, SecretsModule, TemplatesModule],
  controllers: [ProvisioningController],
  providers: [AgentPlans, DeploymentSources, ProvisionHandler, ListUnusedSeatsHandler, SeatHolders, SeatsSaga],
})
export class ProvisioningModule {
  constructor(projections: Projections) {
    projections.register(seatsProjection);
  }
}
