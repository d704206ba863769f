import Dockerode from 'dockerode';

import { dockerUnderTest } from '../../../test/support/docker-under-test.ts';
import { removeInstance } from '../../../test/support/images.ts';
import { projectContract, pythonProjectContract } from '../../../test/contracts/runtime.projects.contract.ts';
import { runtimeContract } from '../../../test/contracts/runtime.contract.ts';

const docker = new Dockerode();

const make = async () => dockerUnderTest(docker, (instance) => removeInstance(docker, instance));

describe('projects', () => {
  projectContract('docker', make);
  pythonProjectContract('docker', make);
});

describe('the docker adapter', () => {
  runtimeContract('docker', make);
});
