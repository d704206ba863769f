import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { SourceHosts } from '../../agents/services.ts';
import { Config } from '../../../kernel/config/config.ts';
import { canonicalRepository, namesSameImage, parseImageReference, registryHost } from '../../../kernel/network/image-reference.ts';
import type { ReferenceSource } from '../../../runtime/image-source.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { OpenSourceCredential } from '../../secrets/index.ts';
import { AccountHasImage } from './account-images.queries.ts';

/** The timeout for resolving the host name of a registry before a pull, in milliseconds. */
const LOOKUP_MS = 20_000;

/** Makes of an image's name the source from which one account may have that image. */
@Injectable()
export class ImageReferences {
  constructor(
    private readonly hosts: SourceHosts,
    private readonly queries: QueryBus,
    private readonly config: Config,
  ) {}

  sourceFor(imageName: string, accountId: string): ReferenceSource {
    const mayUse = async (image: string) => this.isShared(imageName) || this.queries.execute(new AccountHasImage(accountId, image));
    const credential = async () => {
      const reference = parseImageReference(imageName);
      if (reference === null) return null;
      return this.queries.execute(new OpenSourceCredential(accountId, { kind: 'registry', host: registryHost(reference) }));
    };
    return { kind: 'reference', reference: imageName, mayUse, beforePull: () => this.checkRegistry(imageName, accountId), credential };
  }

  /** Returns true if the operator shares the image. An image that is shared without a tag is shared with all its tags. */
  isShared(imageName: string): boolean {
    const wanted = parseImageReference(imageName);
    if (wanted === null) return false;
    return this.config.sharedImages.some((name) => {
      const shared = parseImageReference(name);
      if (shared === null) return false;
      if (shared.tag !== null || shared.digest !== null) return namesSameImage(wanted, shared);
      return canonicalRepository(wanted) === canonicalRepository(shared);
    });
  }

  /** Throws `RuntimeRefused` if the image's registry was not found, or has a private address that the operator has not allowed. */
  private async checkRegistry(imageName: string, accountId: string): Promise<void> {
    // The registry is checked again, because its name may have moved to a private address since the request.
    switch (await this.hosts.placeOf(imageName, accountId, LOOKUP_MS)) {
      case 'private':
        throw new RuntimeRefused(`The registry of ${imageName} has a private address, which the operator has not allowed.`);
      case 'unknown':
        throw new RuntimeRefused(`The registry of ${imageName} was not found.`);
      case 'public':
    }
  }
}
