import { describeWithDocker } from '../support/docker.ts';
import { killedAtEveryStep } from '../support/killed-at-every-step.ts';

describeWithDocker('a service that is killed on Docker', () => {
  killedAtEveryStep('docker');
});
