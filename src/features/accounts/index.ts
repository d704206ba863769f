export { accountEvents } from './aggregate/accounts.events.ts';
export { AssignPlan, OpenAccount, ReleaseComputerSeat, ReleaseSeat, TakeComputerSeat, TakeSeat } from './accounts.commands.ts';
export { Sessions } from './sessions.ts';
