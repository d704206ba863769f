import { Controller, Delete, Get, HttpCode, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { RequireAdmin } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { ProjectionDto, RebuildStartedDto, VerificationDto } from './projections.dto.ts';
import { CancelRebuild, RebuildProjection, VerifyProjection } from './projections.commands.ts';
import { ListProjections } from './projections.queries.ts';

@Controller('api/admin/projections')
@RequireAdmin()
export class ProjectionsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** Lists the state of every read model: how far it is behind the log, and its running rebuild, if there is one. */
  @Get()
  list(): Promise<ProjectionDto[]> {
    return this.queries.execute(new ListProjections());
  }

  /**
   * Rebuilds the read model in a new table, which replaces the current one atomically when it has caught up with the log. Returns the
   * running rebuild if there is one.
   */
  @Post(':name/rebuild')
  @HttpCode(202)
  async rebuild(@Param('name') name: string, @CurrentRequest() { context }: RequestContext): Promise<RebuildStartedDto> {
    return { rebuild_id: await this.commands.execute(new RebuildProjection(context, name)) };
  }

  /** Cancels the rebuild; reads continue to use the current rows. */
  @Delete(':name/rebuild')
  @HttpCode(204)
  cancel(@Param('name') name: string, @CurrentRequest() { context }: RequestContext): Promise<void> {
    return this.commands.execute(new CancelRebuild(context, name));
  }

  /** Folds the log into separate tables and compares them row by row with the current rows, at the same position. */
  @Post(':name/verify')
  @HttpCode(200)
  verify(@Param('name') name: string, @CurrentRequest() { context }: RequestContext): Promise<VerificationDto> {
    return this.commands.execute(new VerifyProjection(context, name));
  }
}
