import { commandsThatGoOn } from './commands.contract.ts';

describe('a background command on the local runtime', () => {
  commandsThatGoOn('local');
});
