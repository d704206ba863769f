import { Body, Controller, Delete, Get, HttpCode, Post, Query } from '@nestjs/common';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { JsonBody } from '../../http/server/body.ts';
import {
  CustomFileDto,
  CustomFilePlaceDto,
  toCustomFiles,
  toLocation,
  StoreCustomFilesDto,
  StoredCustomFilesDto,
  toCustomFileDto,
} from './custom-files.dto.ts';
import { CustomFiles } from './custom-files.service.ts';

/** The size of one request at most, in bytes. The files of an agent may have more together, stored by several requests. */
const REQUEST_BYTES_MAX = 8 * 1_048_576;

/** The custom files of an agent, which are put into each of its new containers. */
@Controller('api/v1/agents/:agentId/files')
export class CustomFilesController {
  constructor(private readonly files: CustomFiles) {}

  /** Lists the agent's custom files in the order in which its scripts run, without their contents. */
  @Get()
  @RequireScope('provision', 'deploy', 'manage')
  async list(@AgentId() agentId: string, @CurrentRequest() { accountId }: RequestContext): Promise<CustomFileDto[]> {
    return (await this.files.list(accountId, agentId)).map(toCustomFileDto);
  }

  /**
   * Stores custom files, at most 100 for an agent, and 8 MiB in one request. A file whose path in the container is taken by another custom
   * file replaces it. The files are put into each new container of the agent, and the scripts among them run at each deployment, in order.
   */
  @Post()
  @JsonBody(REQUEST_BYTES_MAX)
  @Idempotent()
  @RequireScope('deploy')
  async store(
    @AgentId() agentId: string,
    @Body() { files }: StoreCustomFilesDto,
    @CurrentRequest() { context, accountId }: RequestContext,
  ): Promise<StoredCustomFilesDto> {
    const given = toCustomFiles(files);
    const total = await this.files.store(context, accountId, agentId, given);
    const message = `The agent has ${total} custom ${total === 1 ? 'file' : 'files'}. They are in its container from the next deployment on.`;
    return { agent_id: agentId, files_count: given.length, message };
  }

  /** Removes a custom file. It is not in the agent's next container; one on the volume stays there. */
  @Delete()
  @HttpCode(204)
  @RequireScope('deploy')
  remove(
    @AgentId() agentId: string,
    @Query() query: CustomFilePlaceDto,
    @CurrentRequest() { context, accountId }: RequestContext,
  ): Promise<void> {
    return this.files.remove(context, accountId, agentId, toLocation(query));
  }
}
