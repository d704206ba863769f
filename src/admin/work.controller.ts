import { Controller, Get } from '@nestjs/common';

import { RequireAdmin } from '../platform/http/access.ts';
import type { SagaWork } from './work.dto.ts';
import { WorkService } from './work.service.ts';

@Controller('api/admin/work')
@RequireAdmin()
export class WorkController {
  constructor(private readonly work: WorkService) {}

  /** Answers what this replica has to do, by saga, and which accounts have most of it. `/metrics` tells the same without names. */
  @Get()
  look(): SagaWork[] {
    return this.work.look();
  }
}
