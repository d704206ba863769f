import { SetMetadata } from '@nestjs/common';

export const READS_MODEL = 'mooring:reads-model';

/**
 * Marks a route that answers from these projections: it waits until they hold every event of the caller's account, and the position that
 * the caller asks for.
 */
export const ReadsModel = (...projections: string[]) => SetMetadata(READS_MODEL, projections);
