import { Module } from '@nestjs/common';

import { Projections } from '../../eventsourcing/projections/projections.ts';
import { SecretsModule } from '../secrets/secrets.module.ts';
import { EnvironmentController } from './environment.controller.ts';
import { ListVariablesHandler, RemoveVariableHandler, SetVariableHandler } from './environment.handlers.ts';
import { CountSecretUsersHandler, FindSecretUsersHandler, secretUsesProjection } from './secret-uses.projection.ts';
import { Variables } from './variables.service.ts';

@Module({
  imports: [SecretsModule],
  controllers: [EnvironmentController],
  providers: [Variables, SetVariableHandler, RemoveVariableHandler, ListVariablesHandler, CountSecretUsersHandler, FindSecretUsersHandler],
  exports: [Variables],
})
export class EnvironmentModule {
  constructor(projections: Projections) {
    projections.register(secretUsesProjection);
  }
}
