import { killedAtEveryStep } from '../support/killed-at-every-step.ts';

describe('a service that is killed on Docker', () => {
  killedAtEveryStep('docker');
});
