import { Body, Controller, Get, HttpCode, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Operation } from '../../../http/requests/operation.ts';
import { RequireAdmin } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { RotateMasterKey } from './keys.commands.ts';
import { MasterKeyDto, RotateMasterKeyDto, RotationBegunDto } from './keys.dto.ts';
import { ShowMasterKey } from './keys.queries.ts';

@Controller('api/admin/keys')
@RequireAdmin()
export class KeysController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** Returns the id of the master key, never the key, and how far its last rotation is. */
  @Get()
  @Operation('getMasterKey')
  get(): Promise<MasterKeyDto> {
    return this.queries.execute(new ShowMasterKey());
  }

  /**
   * Replaces the master key while the service runs: every data key is wrapped by the new one, and then the old one opens nothing in the
   * database. Returns immediately; `GET /api/admin/keys` shows the progress.
   */
  @Post('rotate')
  @HttpCode(202)
  async rotate(@Body() { new_master_key }: RotateMasterKeyDto, @CurrentRequest() { context }: RequestContext): Promise<RotationBegunDto> {
    return { rotation_id: await this.commands.execute(new RotateMasterKey(context, new_master_key ?? null)) };
  }
}
