export { AccountCredentialRow, AccountRow } from './account.entity.ts';
export { accountEvents } from './accounts.events.ts';
export { AssignPlan, type NewAccount, OpenAccount, ReleaseSeat, TakeSeat } from './accounts.handlers.ts';
export { GetAccount } from './accounts.projection.ts';
export { AccountsModule } from './accounts.module.ts';
export { Sessions } from './sessions.ts';
