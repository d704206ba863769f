import { Body, Controller, Delete, Get, HttpCode, Patch, Post, Query } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';

import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { Operation } from '../../http/requests/operation.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { ComputerResponses } from './computer-responses.service.ts';
import { ComputerId } from './fields/computer-id.ts';
import { ConfigureComputer, DeleteComputer, SleepComputer, WakeComputer } from './computers.commands.ts';
import {
  ComputerDto,
  CreateComputerDto,
  ListComputersQueryDto,
  SleepComputerDto,
  toComputerDto,
  UpdateComputerDto,
  WakeComputerQueryDto,
} from './computers.dto.ts';

/** Serves computers: a desktop for each end user of an account. */
@Controller('api/v1/computers')
@RequireScope('computers')
export class ComputersController {
  constructor(private readonly responses: ComputerResponses) {}

  /** Makes the end user's computer; answers 200 with the existing one if the end user has a computer, which is not woken. */
  @Post()
  @Idempotent()
  @Operation('createComputer')
  @ApiResponse({ status: 201, type: ComputerDto })
  @ApiResponse({ status: 200, type: ComputerDto })
  async create(
    @Body() { end_user_id, env_vars, ...settings }: CreateComputerDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ComputerDto> {
    return toComputerDto(await this.responses.create({ endUserId: end_user_id, variables: env_vars, ...settings }, call));
  }

  /** Lists the account's computers, newest first. */
  @Get()
  @Operation('listComputers')
  @ReadsModel('computers')
  @ApiResponse({ status: 200, type: [ComputerDto] })
  async list(@Query() query: ListComputersQueryDto, @CurrentRequest() call: RequestContext): Promise<ComputerDto[]> {
    return (await this.responses.list(query, call)).map(toComputerDto);
  }

  @Get(':computerId')
  @Operation('getComputer')
  @ReadsModel('computers')
  async get(@ComputerId() computerId: string, @CurrentRequest() call: RequestContext): Promise<ComputerDto> {
    return toComputerDto(await this.responses.show(computerId, call));
  }

  /** Changes the settings that the body names. */
  @Patch(':computerId')
  @Operation('updateComputer')
  async configure(
    @ComputerId() computerId: string,
    @Body() { env_vars: variables = {}, ...settings }: UpdateComputerDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ComputerDto> {
    const { context, accountId, ifMatch } = call;
    return toComputerDto(
      await this.responses.change(new ConfigureComputer(context, accountId, computerId, ifMatch, { settings, variables }), call),
    );
  }

  /**
   * Deletes the computer's container, volume and record. Answers 204 once they are gone, or 202 if that takes over 30 s and continues by
   * itself.
   */
  @Delete(':computerId')
  @HttpCode(204)
  @Operation('deleteComputer')
  @ApiResponse({ status: 204 })
  @ApiResponse({ status: 202, type: ComputerDto })
  async remove(@ComputerId() computerId: string, @CurrentRequest() call: RequestContext): Promise<ComputerDto | undefined> {
    const { context, accountId, ifMatch } = call;
    const computer = await this.responses.remove(new DeleteComputer(context, accountId, computerId, ifMatch), call);
    return computer && toComputerDto(computer);
  }

  /** Wakes the computer. Answers 200 once its first picture is available, or 202 with `wait=false`, or if that takes over 60 s. */
  @Post(':computerId/wake')
  @HttpCode(200)
  @Operation('wakeComputer')
  @ApiResponse({ status: 200, type: ComputerDto })
  @ApiResponse({ status: 202, type: ComputerDto })
  async wake(
    @ComputerId() computerId: string,
    @Query() { wait }: WakeComputerQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ComputerDto> {
    const { context, accountId, ifMatch } = call;
    return toComputerDto(await this.responses.wake(new WakeComputer(context, accountId, computerId, ifMatch), wait !== 'false', call));
  }

  /**
   * Puts the computer to sleep, which ends its programs and keeps its home folder. Answers 200 once it sleeps. A computer that a person sees is put
   * to sleep only by force.
   */
  @Post(':computerId/sleep')
  @HttpCode(200)
  @Operation('sleepComputer')
  @ApiResponse({ status: 200, type: ComputerDto })
  @ApiResponse({ status: 202, type: ComputerDto })
  async sleep(
    @ComputerId() computerId: string,
    @Body() { force = false }: SleepComputerDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ComputerDto> {
    const { context, accountId, ifMatch } = call;
    return toComputerDto(await this.responses.sleep(new SleepComputer(context, accountId, computerId, ifMatch, force), call));
  }
}
