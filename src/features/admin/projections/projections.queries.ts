import { Query } from '@nestjs/cqrs';

import type { ProjectionDto } from './projections.dto.ts';

/** Returns the state of every projection, by name. */
export class ListProjections extends Query<ProjectionDto[]> {}
