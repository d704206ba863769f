import { sagaContract } from '../../../test/contracts/sagas.contract.ts';

describe('a saga', () => {
  sagaContract();
});
