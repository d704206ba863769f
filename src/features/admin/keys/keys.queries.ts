import { Query } from '@nestjs/cqrs';

import type { MasterKeyDto } from './keys.dto.ts';

/** Returns the id of the master key, and the state of its last rotation. */
export class ShowMasterKey extends Query<MasterKeyDto> {}
