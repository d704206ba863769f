import { Controller, Get, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { Clock } from '../../../kernel/clock.ts';
import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { LargeRead } from '../../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../../http/responses/reads-model.ts';
import { computerCountsProjection } from './computer-counts.projection.ts';
import { computerIntervalsProjection } from './computer-intervals.projection.ts';
import { ComputerUsageDto, ComputerUsageQueryDto, toComputerUsageDto, usageSelection } from './computer-usage.dto.ts';
import { GetComputerUsage } from './computer-usage.queries.ts';

@Controller('api/v1/computers/usage')
@RequireScope('computers')
export class ComputerUsageController {
  constructor(
    private readonly queries: QueryBus,
    private readonly clock: Clock,
  ) {}

  /** Returns how long computers were awake and what was done with them. */
  @Get()
  @Operation('getComputerUsage')
  @LargeRead()
  @ReadsModel(computerIntervalsProjection.name, computerCountsProjection.name)
  async usage(@Query() query: ComputerUsageQueryDto, @CurrentRequest() call: RequestContext): Promise<ComputerUsageDto> {
    const selection = usageSelection(call.accountId, query, this.clock.now());
    const { limit, place } = call.page(query, 'text');
    const usage = await this.queries.execute(new GetComputerUsage(selection, limit, place?.[0] ?? null));
    call.linkAfter(usage.computers, limit, (last) => [last.computerId]);
    return toComputerUsageDto(selection, usage);
  }
}
