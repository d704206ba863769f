import { Controller, Delete, Get, HttpCode, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Context, RequireAdmin } from '../platform/http/access.ts';
import type { CommandContext } from '../platform/http/caller.ts';
import { ProjectionView, RebuildStarted, VerificationView } from './projections.dto.ts';
import { CancelRebuild, ListProjections, RebuildProjection, VerifyProjection } from './projections.handlers.ts';

@Controller('api/admin/projections')
@RequireAdmin()
export class ProjectionsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** How every read model stands: how far behind the log it is, and the rebuild that is under way. */
  @Get()
  list(): Promise<ProjectionView[]> {
    return this.queries.execute(new ListProjections());
  }

  /** Has the read model made anew beside the rows that serve, which it replaces at once when it has caught up. While one runs, answers that one. */
  @Post(':name/rebuild')
  @HttpCode(202)
  async rebuild(@Param('name') name: string, @Context() context: CommandContext): Promise<RebuildStarted> {
    return { rebuild_id: await this.commands.execute(new RebuildProjection(context, name)) };
  }

  /** Cancels the rebuild; the rows that stand go on serving. */
  @Delete(':name/rebuild')
  @HttpCode(204)
  cancel(@Param('name') name: string, @Context() context: CommandContext): Promise<void> {
    return this.commands.execute(new CancelRebuild(context, name));
  }

  /** Folds the log anew, aside, and compares row by row with the rows that serve, at one position. */
  @Post(':name/verify')
  @HttpCode(200)
  verify(@Param('name') name: string, @Context() context: CommandContext): Promise<VerificationView> {
    return this.commands.execute(new VerifyProjection(context, name));
  }
}
