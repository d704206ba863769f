import Dockerode from 'dockerode';

import { describeWithDocker } from '../../../../test/support/docker.ts';
import { dockerUnderTest } from '../../../../test/support/docker-under-test.ts';
import { removeInstance } from '../../../../test/support/images.ts';
import { projectContract } from '../runtime.projects.contract.ts';
import { runtimeContract } from '../runtime.contract.ts';

const docker = new Dockerode();

describeWithDocker('projects', () =>
  projectContract('docker', async () => dockerUnderTest(docker, (instance) => removeInstance(docker, instance))),
);

describeWithDocker('the docker adapter', () =>
  runtimeContract('docker', async () => dockerUnderTest(docker, (instance) => removeInstance(docker, instance))),
);
