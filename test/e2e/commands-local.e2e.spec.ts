import { commandsThatGoOn } from './commands.contract.ts';

describe('a command that goes on, on the local runtime', () => {
  commandsThatGoOn('local');
});
