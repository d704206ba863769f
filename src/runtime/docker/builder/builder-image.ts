import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type Dockerode from 'dockerode';
import { ServiceImage } from '../image-sources/service-image.ts';

const folder = new URL('../../../../deploy/builder/', import.meta.url);

/** Returns the text of the builders' seccomp profile. */
export const readSeccomp = (): Promise<string> => readFile(fileURLToPath(new URL('seccomp.json', folder)), 'utf8');

/** Returns the image of the builders: the operator's, if one is configured, or one that the engine builds. */
export const builderImage = (docker: Dockerode, given: string | null): ServiceImage =>
  new ServiceImage(docker, {
    given,
    folder,
    repo: 'mooring-builder',
    owner: 'the builder',
    setting: 'MOORING_BUILDER_IMAGE',
    unmade: 'No Dockerfile can be built, since the image of the builder can’t be made',
  });
