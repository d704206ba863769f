import { Controller, Get } from '@nestjs/common';

import { Operation } from '../../../http/requests/operation.ts';
import { RequireAdmin } from '../../../http/auth/access.ts';
import { ReadsModel } from '../../../http/responses/reads-model.ts';
import { RuntimeDrift } from './runtime-drift.service.ts';
import { RuntimeDto } from './runtime.dto.ts';

@Controller('api/admin/runtime')
@RequireAdmin()
export class RuntimeController {
  constructor(private readonly drift: RuntimeDrift) {}

  /** Compares what the engine has with the log. The sagas settle a difference within seconds, so one that lasts is a fault. Tells what images take, too. */
  @Get()
  @Operation('getRuntime')
  @ReadsModel('agents')
  get(): Promise<RuntimeDto> {
    return this.drift.find();
  }
}
