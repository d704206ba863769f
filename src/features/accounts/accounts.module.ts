import { Module } from '@nestjs/common';

import { Projections } from '../../eventsourcing/projections/projections.ts';
import { AccountsController } from './accounts.controller.ts';
import {
  AccountWriter,
  AssignPlanHandler,
  OpenAccountHandler,
  ReleaseComputerSeatHandler,
  ReleaseSeatHandler,
  TakeComputerSeatHandler,
  TakeSeatHandler,
} from './accounts.handlers.ts';
import { accountsProjection, GetAccountHandler, ListAccountsHandler } from './accounts.projection.ts';
import { AuthController } from './auth.controller.ts';
import { Credentials } from './credentials/credentials.ts';
import { SessionEnds } from './session-ends.service.ts';
import { Sessions } from './sessions.ts';
import { SignIn } from './sign-in.service.ts';

@Module({
  controllers: [AuthController, AccountsController],
  providers: [
    Credentials,
    Sessions,
    SessionEnds,
    SignIn,
    AccountWriter,
    OpenAccountHandler,
    AssignPlanHandler,
    TakeSeatHandler,
    ReleaseSeatHandler,
    TakeComputerSeatHandler,
    ReleaseComputerSeatHandler,
    GetAccountHandler,
    ListAccountsHandler,
  ],
  exports: [Sessions],
})
export class AccountsModule {
  constructor(projections: Projections) {
    projections.register(accountsProjection);
  }
}
