import { SetMetadata } from '@nestjs/common';

export const READS_MODEL = 'mooring:reads-model';

/**
 * Marks a route that reads these projections: it waits until they contain every event of the caller's account, and the position that the
 * caller requests.
 */
export const ReadsModel = (...projections: string[]) => SetMetadata(READS_MODEL, projections);
