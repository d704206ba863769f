import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';

/** The attempts that may end with the process before the deployment fails. */
const LOST_MAX = 2;

/**
 * Counts the attempts to make a deployment's image available that have begun and not ended. Such an attempt ended with the process, and perhaps ended
 * the process itself: the deployment fails at its third start, in place of ending the service again and again.
 */
@Injectable()
export class ImageAttempts {
  constructor(private readonly database: Database) {}

  /** Throws `RuntimeRefused` after two attempts that ended with their process. */
  async run<T>(deploymentId: string, work: () => Promise<T>): Promise<T> {
    await this.begin(deploymentId);
    try {
      return await work();
    } finally {
      await this.end(deploymentId);
    }
  }

  private async begin(deploymentId: string): Promise<void> {
    await this.database.query(`delete from image_attempts where begun_at < now() - interval '1 day'`);
    const [row] = await this.database.query<{ begun: number }>(
      `insert into image_attempts as known (deployment_id, begun) values ($1, 1)
        on conflict (deployment_id) do update set begun = least(known.begun + 1, $2), begun_at = now() returning begun`,
      [deploymentId, LOST_MAX + 1],
    );
    // The row stays, so that a process that ends before this is recorded finds the same.
    if ((row?.begun ?? 0) > LOST_MAX)
      throw new RuntimeRefused(
        'The service ended twice while it made the image of this deployment available. The deployment may be the reason, so it is not tried again.',
      );
  }

  /** An attempt that ended in any way while its process lives says nothing against the next one. */
  private async end(deploymentId: string): Promise<void> {
    await this.database.query('delete from image_attempts where deployment_id = $1', [deploymentId]);
  }
}
