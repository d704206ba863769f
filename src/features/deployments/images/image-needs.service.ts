import { Injectable } from '@nestjs/common';

import { EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';
import { ContainerKinds } from '../../../sandboxes/services.ts';
import { type ImageClaim, ImageClaims } from './image-claims.service.ts';

/** The number of streams that are read concurrently. */
const CONCURRENT_READS_MAX = 16;

/** Determines which images sandboxes need: those that work in progress claims, and those in the read models. */
@Injectable()
export class ImageNeeds {
  constructor(
    private readonly kinds: ContainerKinds,
    private readonly claims: ImageClaims,
    private readonly readModels: ReadModels,
    private readonly events: EventStore,
  ) {}

  /** Releases the claims of ended deployments, once the read models include their outcome. Throws ProblemError `read_model_behind`. */
  async releaseEnded(): Promise<void> {
    const ended: string[] = [];
    const claims = await this.claims.list();
    const look = async (claim: ImageClaim) => {
      const kind = this.kinds.of(claim.agent_id);
      if (kind !== null && !(await kind.records.isClaiming(claim.agent_id, claim.deployment_id))) ended.push(claim.deployment_id);
    };
    for (let from = 0; from < claims.length; from += CONCURRENT_READS_MAX)
      await Promise.all(claims.slice(from, from + CONCURRENT_READS_MAX).map(look));
    const head = await this.events.head('core');
    for (const { rows } of this.kinds.all()) for (const name of rows.readModels) await this.readModels.waitFor(name, head);
    await this.claims.release(ended);
  }

  /** Returns the images among these (digests or ids) that sandboxes need according to the read models. */
  async neededByReadModels(digests: readonly string[]): Promise<ReadonlySet<string>> {
    const needed = await Promise.all(this.kinds.all().map(({ rows }) => rows.neededImages(digests)));
    return new Set(needed.flatMap((each) => [...each]));
  }

  /** Runs the work while no deployment can claim an image. Returns false, without running it, if a sandbox needs one of these images. */
  unlessNeeded(digests: readonly string[], work: () => Promise<boolean>): Promise<boolean> {
    // Claims are checked before the read models: a claim is released only after the read models include the image, so no need is missed.
    return this.claims.unlessClaimed(digests, async () => (await this.neededByReadModels(digests)).size === 0 && work());
  }
}
