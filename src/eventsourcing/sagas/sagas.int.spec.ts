import { sagaContract } from './sagas.contract.ts';

describe('a saga', () => {
  sagaContract();
});
