export { accountEvents } from './aggregate/accounts.events.ts';
export { AssignPlan, OpenAccount, ReleaseSeat, TakeSeat } from './accounts.commands.ts';
export { Sessions } from './sessions.ts';
