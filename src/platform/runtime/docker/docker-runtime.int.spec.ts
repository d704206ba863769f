import Dockerode from 'dockerode';

import { describeWithDocker } from '../../../../test/support/docker.ts';
import { dockerUnderTest } from '../../../../test/support/docker-under-test.ts';
import { removeInstance } from '../../../../test/support/images.ts';
import { runtimeContract } from '../runtime.contract.ts';

const docker = new Dockerode();

describeWithDocker('the docker adapter', () =>
  runtimeContract('docker', async () => dockerUnderTest(docker, (instance) => removeInstance(docker, instance))),
);
