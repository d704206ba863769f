import { Injectable, Logger } from '@nestjs/common';

import type { StoredImage } from '../../../runtime/image-store.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { sagaStep } from '../../../eventsourcing/sagas/saga-step.ts';
import { ImageNeeds } from './image-needs.service.ts';
import { ImageReferences } from './image-references.service.ts';
import { ImageSweepRecords } from './image-sweep-records.service.ts';

/** The most images that one sweep tries to remove. The next sweep continues. */
const REMOVALS_MAX = 20;
/** Images that only builds use are kept for this time after their last use, in ms. */
const BUILD_CACHE_AGE_MS = 7 * 86_400_000;

/** Removes images of this installation that no agent runs or may roll back to. */
@Injectable()
export class ImageSweep {
  private readonly logger = new Logger('Images');
  /** The images that could not be removed, so that others are tried first. */
  private unremovable: ReadonlySet<string> = new Set();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly needs: ImageNeeds,
    private readonly references: ImageReferences,
    private readonly records: ImageSweepRecords,
  ) {}

  /** Tries to remove at most 20 images. Returns whether there are more. */
  async run(assertLease: () => void): Promise<boolean> {
    await this.needs.releaseEnded();
    const unneeded = await this.unneeded();
    const turn = unneeded.toSorted((one, other) => Number(this.unremovable.has(one.id)) - Number(this.unremovable.has(other.id)));
    const tried = turn.slice(0, REMOVALS_MAX);
    const removed: StoredImage[] = [];
    for (const image of tried) {
      assertLease();
      if (!(await this.tryRemove(image))) continue;
      removed.push(image);
      this.logger.log({ image: image.id, names: image.names, bytes: image.bytes, msg: 'removed an image that no agent needs' });
      sagaStep('images', image.id, 'removed');
    }
    const refused = tried.filter((image) => !removed.includes(image));
    this.unremovable = new Set([...unneeded.filter(({ id }) => this.unremovable.has(id)), ...refused].map(({ id }) => id));
    const removed_bytes = removed.reduce((sum, { bytes }) => sum + bytes, 0);
    await this.records.record({ removed: removed.length, removed_bytes, refused: refused.length });
    return removed.length > 0 && turn.length > tried.length;
  }

  private async unneeded(): Promise<StoredImage[]> {
    const { own } = await this.runtime.images.list();
    const needed = await this.needs.neededByReadModels(own.flatMap(({ digests }) => digests));
    return own.filter((image) => !this.isKept(image) && !image.digests.some((digest) => needed.has(digest)));
  }

  private async tryRemove(image: StoredImage): Promise<boolean> {
    try {
      return await this.needs.unlessNeeded(image.digests, () => this.runtime.images.remove(image.id));
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      this.logger.warn(`An image that no agent needs was not removed: ${error.message}`);
      return false;
    }
  }

  /** Returns whether the image is kept although no agent needs it. */
  private isKept({ isBase, names, builtOnAt }: StoredImage): boolean {
    if (isBase || names.some((name) => this.references.isShared(name))) return true;
    return builtOnAt !== null && Date.now() - builtOnAt.getTime() < BUILD_CACHE_AGE_MS;
  }
}
