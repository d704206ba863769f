import type Dockerode from 'dockerode';

import type { ResolvedImage } from '../../image-source.ts';
import { startCommand } from './command.ts';
import { findImage } from '../image-sources/registry.ts';
import { ServiceImage } from '../image-sources/service-image.ts';

const REPOSITORY = 'mooring-computer';
/** The tags that the service assigns. Other tags are the operator's and are not touched. */
const madeName = new RegExp(`^${REPOSITORY}:[0-9a-f]{16}$`);

/** Provides the image of computers. An engine keeps one of them, whichever process built it. */
export class ComputerImages {
  private readonly image: ServiceImage;

  constructor(
    private readonly docker: Dockerode,
    given: string | null,
  ) {
    this.image = new ServiceImage(docker, {
      given,
      folder: new URL('../../../../deploy/computer/', import.meta.url),
      files: 'desktop',
      repo: REPOSITORY,
      owner: 'computers',
      setting: 'MOORING_COMPUTER_IMAGE',
      unmade: 'There are no computers, since their image can’t be made',
    });
  }

  async ensure(log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage> {
    const image = await this.image.ensure(log, signal);
    const found = await findImage(this.docker, image);
    return { image, name: await this.image.name(), command: startCommand(found?.Config ?? {}, null) };
  }

  /** Returns a test for the names of images that earlier releases or settings built, and that nothing new is created from. */
  async outdated(): Promise<(name: string) => boolean> {
    const current = await this.image.name().catch(() => null);
    return (name) => current !== null && name !== current && madeName.test(name);
  }
}
