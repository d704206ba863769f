import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { ApiBody, ApiOkResponse } from '@nestjs/swagger';

import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { BODY_LIMIT, JsonBody } from '../../../http/server/body.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { ActionsResultDto, toActionsResult } from './actions.dto.ts';
import { actionsSchema } from './actions.schema.ts';
import { batchBounds } from './batch-bounds.ts';
import { computerCall, WakeQuery } from './computer-call.ts';
import { ComputerId } from '../fields/computer-id.ts';
import { ComputerActions } from './computer-actions.service.ts';

@Controller('api/v1/computers/:computerId/actions')
export class ActionsController {
  constructor(private readonly actions: ComputerActions) {}

  /**
   * Runs the actions of a model on the computer's desktop: one action, or up to 50 in order. The objects of both vendors' models are
   * accepted unchanged. All are checked before the first one runs. A failing action ends the batch; the answer reports it, because those
   * before it have taken effect. Pressed keys and buttons are released at the end, except a button that `left_mouse_down` pressed.
   */
  @Post()
  @HttpCode(200)
  @JsonBody(BODY_LIMIT, batchBounds)
  @WakeQuery()
  @RequireScope('computers')
  @Operation('actOnComputer')
  @ApiBody({ schema: actionsSchema })
  @ApiOkResponse({ type: ActionsResultDto })
  run(@ComputerId() computerId: string, @Body() body: unknown, @CurrentRequest() call: RequestContext): Promise<ActionsResultDto> {
    return this.actions.run(computerCall(computerId, call), body, (outcome) => toActionsResult(computerId, outcome));
  }
}
