export { AccountCredentialRow, AccountRow } from './account.entity.ts';
export { accountEvents } from './accounts.events.ts';
export { AssignPlan, OpenAccount, ReleaseSeat, TakeSeat } from './accounts.commands.ts';
export { Sessions } from './sessions.ts';
