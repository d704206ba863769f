/*
 * Claims of deployments on images, which keep an image from being removed between its resolution and the read model that names it.
 *
 * It owns the table `image_claims`. It does not own which images sandboxes need according to the read models (`ImageNeeds`), or the removal
 * (`ImageSweep`).
 *
 * Invariants (decisions/0042):
 * C1. A deployment claims its image first, and then checks that the engine still has it. A removal excludes new claims while it looks for
 *     claims and asks the engine. So one of the two always sees the other.
 * C2. A claim stays until the read models know how the deployment ended; from then on they keep the image.
 * C3. Claims do not exclude each other.
 */

import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { digestOfColumn } from './image-sweep.queries.ts';

/** The most claims that are read at once. */
const CLAIMS_MAX = 1_000;

export interface ImageClaim {
  deployment_id: string;
  agent_id: string;
}

/**
 * Keeps the images of deployments in progress from removal.
 */
@Injectable()
export class ImageClaims {
  constructor(private readonly database: Database) {}

  /** C1: claims the image for a deployment. Waits up to 10 s for a removal that is running. */
  async claim(claim: ImageClaim, image: string): Promise<void> {
    await this.database.query(
      `insert into image_claims (deployment_id, agent_id, image) values ($1, $2, $3)
        on conflict (deployment_id) do update set image = excluded.image, claimed_at = now()`,
      [claim.deployment_id, claim.agent_id, image],
    );
  }

  /** Returns the oldest claims, at most 1,000. */
  list(): Promise<ImageClaim[]> {
    return this.database.query<ImageClaim & Record<string, unknown>>(
      'select deployment_id, agent_id from image_claims order by claimed_at limit $1',
      [CLAIMS_MAX],
    );
  }

  /** C2: deletes the claims of deployments that have ended. The read models must know how they ended. */
  async release(deploymentIds: readonly string[]): Promise<void> {
    if (deploymentIds.length > 0) await this.database.query('delete from image_claims where deployment_id = any($1)', [deploymentIds]);
  }

  /** C1: runs the work while no deployment can claim an image. Returns false, without running it, if one of these images is claimed. */
  async unlessClaimed(digests: readonly string[], work: () => Promise<boolean>): Promise<boolean> {
    return this.database.transaction(async (client) => {
      // C3: a claim takes only the lock of an insert.
      await client.query('lock table image_claims in share row exclusive mode');
      const { rowCount } = await client.query(`select from image_claims where ${digestOfColumn('image')} = any($1) limit 1`, [digests]);
      return rowCount === 0 && (await work());
    });
  }
}
