import { story } from './story.contract.ts';

// The variable is put back after the file.
beforeAll(() => void (process.env.EVENT_STORE = 'eventstoredb'));

describe('the whole story on the local runtime, with the log in EventStoreDB', () => {
  story('local');
});

describe('the whole story on Docker, with the log in EventStoreDB', () => {
  story('docker');
});
