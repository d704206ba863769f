import { Controller, Get } from '@nestjs/common';

import { Operation } from '../../../http/requests/operation.ts';
import { RequireAdmin } from '../../../http/auth/access.ts';
import type { SagaWorkDto } from './work.dto.ts';
import { SagaWork } from './saga-work.service.ts';

@Controller('api/admin/work')
@RequireAdmin()
export class WorkController {
  constructor(private readonly work: SagaWork) {}

  /**
   * Returns this replica's work by saga, and the accounts that have the most of it. `/metrics` has the same figures without account ids.
   */
  @Get()
  @Operation('listSagaWork')
  list(): SagaWorkDto[] {
    return this.work.stats();
  }
}
