import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { Agents } from '../../agents/services.ts';
import { EventStore } from '../../platform/event-store/event-store.ts';
import { ReadModels } from '../../platform/projections/projection.ts';
import { type ImageClaim, ImageClaims } from './image-claims.service.ts';
import { NeededImages } from './image-sweep.queries.ts';

/** The number of streams that are read at once. */
const AT_ONCE = 16;

/** Tells which images agents need: those that deployments in progress claim, and those that the read models name. */
@Injectable()
export class ImageNeeds {
  constructor(
    private readonly agents: Agents,
    private readonly claims: ImageClaims,
    private readonly readModels: ReadModels,
    private readonly events: EventStore,
    private readonly queries: QueryBus,
  ) {}

  /** Releases the claims of deployments that have ended, as soon as the read models know how. Throws Refusal `read_model_behind`. */
  async releaseEnded(): Promise<void> {
    const ended: string[] = [];
    const claims = await this.claims.list();
    const look = async (claim: ImageClaim) => {
      const { state } = await this.agents.find(claim.agent_id);
      if (state?.status !== 'deploying' || state.deployment?.id !== claim.deployment_id) ended.push(claim.deployment_id);
    };
    for (let from = 0; from < claims.length; from += AT_ONCE) await Promise.all(claims.slice(from, from + AT_ONCE).map(look));
    const head = await this.events.head('core');
    for (const name of ['agents', 'deployments']) await this.readModels.waitFor(name, head);
    await this.claims.release(ended);
  }

  /** Returns those of the images, given by digest or id, that agents need according to the read models. */
  known(digests: readonly string[]): Promise<ReadonlySet<string>> {
    return this.queries.execute(new NeededImages(digests));
  }

  /** Runs the work while no deployment can claim an image, unless an agent needs one of these. Returns false if it did not run. */
  unlessNeeded(digests: readonly string[], work: () => Promise<boolean>): Promise<boolean> {
    // An image is needed as long as its claim stands, and then according to the read models, so no need is missed between the two.
    return this.claims.unlessClaimed(digests, async () => (await this.known(digests)).size === 0 && work());
  }
}
