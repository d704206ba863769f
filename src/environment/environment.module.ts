import { Module } from '@nestjs/common';

import { EnvironmentController } from './environment.controller.ts';
import { ListVariablesHandler, RemoveVariableHandler, SetVariableHandler } from './environment.handlers.ts';
import { Variables } from './variables.service.ts';

@Module({
  controllers: [EnvironmentController],
  providers: [Variables, SetVariableHandler, RemoveVariableHandler, ListVariablesHandler],
  exports: [Variables],
})
export class EnvironmentModule {}
