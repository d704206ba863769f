import Dockerode from 'dockerode';

import { desktopImage, DESKTOP_IMAGE_MS } from '../support/desktop-image.ts';
import { dockerUnderTest } from '../support/docker-under-test.ts';
import { removeInstance } from '../support/images.ts';
import { desktopContract } from './desktop.contract.ts';

const docker = new Dockerode();
jest.setTimeout(DESKTOP_IMAGE_MS);

const make = async () => dockerUnderTest(docker, (instance) => removeInstance(docker, instance), { computerImage: await desktopImage() });

desktopContract('Docker', make, true);
