import { commandsThatGoOn } from './commands.contract.ts';

describe('a command that goes on, on Docker', () => {
  commandsThatGoOn('docker');
});
