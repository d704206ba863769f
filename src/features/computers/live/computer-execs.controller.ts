import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import { v5 as uuidv5 } from 'uuid';

import { EXEC_BODY_LIMIT, ExecDto, type ExecResultDto } from '../../exec/index.ts';
import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { Idempotent } from '../../../http/idempotency/idempotency.interceptor.ts';
import { JsonBody } from '../../../http/server/body.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { newId } from '../../../kernel/ids.ts';
import { computerCall, WakeQuery } from './computer-call.ts';
import { ComputerId } from '../fields/computer-id.ts';
import { ComputerExecs } from './computer-execs.service.ts';

@Controller('api/v1/computers/:computerId/exec')
export class ComputerExecsController {
  constructor(private readonly execs: ComputerExecs) {}

  /**
   * Runs a command as the user of the computer's desktop, in the home folder, and waits for its end. Programs with windows open them on the
   * desktop. If the caller goes away, the command is killed with its children.
   */
  @Post()
  @HttpCode(200)
  @WakeQuery()
  @RequireScope('computers')
  @Operation('runComputerCommand')
  @Idempotent({ sealedFor: 'computerId', sealedAs: 'computer-' })
  @JsonBody(EXEC_BODY_LIMIT)
  @ApiOkResponse()
  run(@ComputerId() computerId: string, @Body() body: ExecDto, @CurrentRequest() call: RequestContext): Promise<ExecResultDto> {
    const execId = call.seed === null ? newId() : uuidv5('exec', call.seed);
    return this.execs.run(computerCall(computerId, call), execId, body);
  }
}
