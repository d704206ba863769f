import { Body, Controller, Delete, Get, HttpCode, Post, Put, Query, StreamableFile } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiHeader, ApiOkResponse } from '@nestjs/swagger';
import { v5 as uuidv5 } from 'uuid';

import { AgentId } from '../agents/index.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { MultipartForm } from '../../http/requests/multipart-form.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { RawBody } from '../../http/server/body.ts';
import { newId } from '../../kernel/ids.ts';
import { describeDownload } from './download-head.ts';
import { Downloads, FILE_BYTES_MAX } from './downloads.service.ts';
import {
  FileListDto,
  FilePathDto,
  ListFilesDto,
  MadeDirectoryDto,
  MakeDirectoryDto,
  MovedFileDto,
  MoveFileDto,
  toFileList,
  UploadDto,
  UploadedFileDto,
  WriteFileDto,
  WrittenFileDto,
} from './files.dto.ts';
import { Files, type FileCall } from './files.service.ts';
import { Uploads } from './uploads.service.ts';

/** The fields of an upload. */
const FORM = { file: 'file', fileBytesMax: FILE_BYTES_MAX, texts: { dest_dir: 4_095, message: 200_000 } };

@Controller('api/agents/:agentId/files')
export class FilesController {
  constructor(
    private readonly files: Files,
    private readonly downloads: Downloads,
    private readonly uploads: Uploads,
  ) {}

  /** Lists a directory of the agent's volume. Every call to files wakes a sleeping agent. */
  @Get('list')
  @Operation('listAgentFiles')
  @RequireScope('provision', 'deploy', 'manage')
  async list(@AgentId() agentId: string, @Query() query: ListFilesDto, @CurrentRequest() call: RequestContext): Promise<FileListDto> {
    return toFileList(await this.files.list(fileCall(agentId, call), query.path ?? '.'));
  }

  /** Sends a file of the agent's container, at most 100 MB, or of it the part that `Range` names; a directory as a tar. */
  @Get('download')
  @Operation('downloadAgentFile')
  @RequireScope('provision', 'deploy', 'manage')
  @ApiHeader({ name: 'Range', required: false, description: 'One part of a file: bytes=0-499, bytes=500- or bytes=-500.' })
  @ApiOkResponse({ content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } } })
  async download(
    @AgentId() agentId: string,
    @Query() { path }: FilePathDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<StreamableFile> {
    const request = { path, range: call.header('range'), ifRange: call.header('if-range'), isHead: call.isHead };
    const download = await this.downloads.open(fileCall(agentId, call), request);
    describeDownload(download, call);
    return new StreamableFile(download.content);
  }

  /**
   * Stores a file of at most 100 MB: with `dest_dir` in exactly that directory of the volume, where it replaces a file of its name; without,
   * in the directory `inbox`, where it gets another name if its own is taken. The fields may come in any order.
   */
  @Post('upload')
  @HttpCode(200)
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  @RawBody('stream')
  @ApiConsumes('multipart/form-data')
  @ApiBody({ type: UploadDto })
  async upload(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<UploadedFileDto> {
    return this.uploads.receive(fileCall(agentId, call), await MultipartForm.of(call.incoming, FORM));
  }

  /** Writes a text as a file of the volume, in whole or not at all. Missing directories are created. */
  @Put('write')
  @Operation('writeAgentFile')
  @RequireScope('deploy')
  write(
    @AgentId() agentId: string,
    @Body() { path, content }: WriteFileDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<WrittenFileDto> {
    return this.files.write(fileCall(agentId, call), path, content);
  }

  @Post('mkdir')
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  mkdir(
    @AgentId() agentId: string,
    @Body() { path, parents }: MakeDirectoryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<MadeDirectoryDto> {
    return this.files.makeDirectory(fileCall(agentId, call), path, parents ?? true);
  }

  /** Renames a file or a directory within the volume. It never replaces anything. */
  @Post('move')
  @HttpCode(200)
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  move(@AgentId() agentId: string, @Body() { from, to }: MoveFileDto, @CurrentRequest() call: RequestContext): Promise<MovedFileDto> {
    return this.files.move(fileCall(agentId, call), from, to);
  }

  /** Deletes a file, or a directory with all that is in it. */
  @Delete('delete')
  @HttpCode(204)
  @RequireScope('deploy')
  remove(@AgentId() agentId: string, @Query() { path }: FilePathDto, @CurrentRequest() call: RequestContext): Promise<void> {
    return this.files.remove(fileCall(agentId, call), path);
  }
}

function fileCall(agentId: string, call: RequestContext): FileCall {
  return {
    context: call.context,
    accountId: call.accountId,
    agentId,
    callId: call.seed === null ? newId() : uuidv5('files', call.seed),
    signal: call.goneSignal(),
    onWoken: () => call.setAgentWoken(),
  };
}
