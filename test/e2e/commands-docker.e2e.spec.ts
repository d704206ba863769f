import { commandsThatGoOn } from './commands.contract.ts';

describe('a background command on Docker', () => {
  commandsThatGoOn('docker');
});
