import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { SourceHosts } from '../../agents/services.ts';
import { Config } from '../../../kernel/config/config.ts';
import { canonicalRepository, namesSameImage, parseImageReference, registryHost } from '../../../kernel/network/image-reference.ts';
import type { ReferenceSource } from '../../../runtime/image-source.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { OpenSourceCredential } from '../../secrets/index.ts';
import { AccountHasImage } from './account-images.queries.ts';

/** The timeout for resolving a registry's host name before a pull, in ms. */
const LOOKUP_MS = 20_000;

/** Determines the source of an image for one account from the image's name. */
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

  /** Returns whether the operator shares the image with all accounts. An image that is shared without a tag is shared with all its tags. */
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

  /** Throws `RuntimeRefused` if the image's registry can't be resolved, or has a private address that the operator has not allowed. */
  private async checkRegistry(imageName: string, accountId: string): Promise<void> {
    // The registry is checked again, because its name may resolve to a private address since the request.
    switch (await this.hosts.scopeOf(imageName, accountId, LOOKUP_MS)) {
      case 'private':
        throw new RuntimeRefused(`The registry of ${imageName} has a private address, which the operator has not allowed.`);
      case 'unknown':
        throw new RuntimeRefused(`The registry of ${imageName} was not found.`);
      case 'public':
    }
  }
}
