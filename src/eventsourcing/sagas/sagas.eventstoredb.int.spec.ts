import { sagaContract } from '../../../test/contracts/sagas.contract.ts';

describe('a saga, with the log in EventStoreDB', () => {
  // The variable is restored after the file.
  beforeAll(() => void (process.env.EVENT_STORE = 'eventstoredb'));
  sagaContract();
});
