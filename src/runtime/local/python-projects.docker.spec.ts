import { localUnderTest } from '../../../test/support/local-under-test.ts';
import { pythonProjectContract } from '../../../test/contracts/runtime.projects.contract.ts';

// It runs the Python of the machine, which a bare one does not have.
pythonProjectContract('local', localUnderTest);
