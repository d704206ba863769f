import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { DeploymentSources } from '../deployments/index.ts';
import { Projections } from '../platform/projections/projections.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { ProvisionHandler } from './provisioning.handlers.ts';
import { ProvisioningController } from './provisioning.controller.ts';
import { ListUnusedSeatsHandler, seatsProjection } from './seats.projection.ts';
import { SeatsSaga } from './seats.saga.ts';

@Module({
  imports: [AgentsModule, TemplatesModule],
  controllers: [ProvisioningController],
  providers: [DeploymentSources, ProvisionHandler, ListUnusedSeatsHandler, SeatsSaga],
})
export class ProvisioningModule {
  constructor(projections: Projections) {
    projections.register(seatsProjection);
  }
}
