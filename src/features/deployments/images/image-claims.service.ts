import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { digestOfColumn } from './image-sweep.queries.ts';

/** The largest number of claims that are looked at in one go. */
const CLAIMS_MAX = 1_000;

export interface ImageClaim {
  deployment_id: string;
  agent_id: string;
}

/**
 * Keeps the images of deployments in progress from removal. A deployment claims its image and then looks whether the engine still has it; a
 * removal excludes new claims while it looks for claims and asks the engine. So one of the two sees the other (decisions/0042).
 */
@Injectable()
export class ImageClaims {
  constructor(private readonly database: Database) {}

  /** Claims the image for a deployment. Waits for a removal that is under way, up to 10 s. */
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

  /** Deletes the claims of deployments that have ended. The read models must know how they ended. */
  async release(deploymentIds: readonly string[]): Promise<void> {
    if (deploymentIds.length > 0) await this.database.query('delete from image_claims where deployment_id = any($1)', [deploymentIds]);
  }

  /** Runs the work while no deployment can claim an image, unless one of these is claimed. Returns false if it did not run. */
  async unlessClaimed(digests: readonly string[], work: () => Promise<boolean>): Promise<boolean> {
    return this.database.transaction(async (client) => {
      // Claims need the weaker lock of an insert, and don't exclude each other.
      await client.query('lock table image_claims in share row exclusive mode');
      const { rowCount } = await client.query(`select from image_claims where ${digestOfColumn('image')} = any($1) limit 1`, [digests]);
      return rowCount === 0 && (await work());
    });
  }
}
