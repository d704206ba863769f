import { story } from './story.contract.ts';

describe('the whole story on the local runtime', () => {
  story('local');
});
describe('the whole story on Docker', () => {
  story('docker');
});
