import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';

/** The deployment fails after this many attempts that ended with their process. */
const INTERRUPTED_ATTEMPTS_MAX = 2;

/**
 * Counts the attempts to provide a deployment's image that started and never ended. Such an attempt ended with the process, and may have
 * crashed it. The deployment fails at its third start, so that it can't crash the service again and again.
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
      [deploymentId, INTERRUPTED_ATTEMPTS_MAX + 1],
    );
    // The row stays, so that the next process finds the same if this one ends before the failure is recorded.
    if ((row?.begun ?? 0) > INTERRUPTED_ATTEMPTS_MAX)
      throw new RuntimeRefused(
        'The service ended twice while it made the image of this deployment available. The deployment may be the reason, so it is not tried again.',
      );
  }

  /** An attempt that ended while its process lives does not count against the next one. */
  private async end(deploymentId: string): Promise<void> {
    await this.database.query('delete from image_attempts where deployment_id = $1', [deploymentId]);
  }
}
