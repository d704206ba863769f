import { Controller, Get, Put, Query, StreamableFile } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiExtraModels, ApiHeader, ApiOkResponse, ApiResponse, getSchemaPath } from '@nestjs/swagger';

import { describeDownload, FILE_BYTES_MAX, type FileListDto, toFileList } from '../../files/index.ts';
import { RequireScope } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { uploadedFile } from '../../../http/requests/uploaded-file.ts';
import { RawBody } from '../../../http/server/body.ts';
import { Operation } from '../../../http/requests/operation.ts';
import { newId } from '../../../kernel/ids.ts';
import { computerCall } from './computer-call.ts';
import {
  ComputerFileFormDto,
  ComputerFileListQueryDto,
  ComputerFileQueryDto,
  StoreComputerFileQueryDto,
  StoredFileDto,
  toStoredFile,
} from './computer-files.dto.ts';
import { ComputerId } from '../fields/computer-id.ts';
import { ComputerFiles } from './computer-files.service.ts';

const bytes = { schema: { type: 'string', format: 'binary' } } as const;
/** The fields of an upload by a form. */
const FORM = { file: 'file', fileBytesMax: FILE_BYTES_MAX, texts: {} };

@Controller('api/v1/computers/:computerId/files')
export class ComputerFilesController {
  constructor(private readonly files: ComputerFiles) {}

  /** Lists a directory of the computer's home; a relative path begins there. */
  @Get('list')
  @RequireScope('computers')
  @Operation('listComputerFiles')
  async list(
    @ComputerId() computerId: string,
    @Query() query: ComputerFileListQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<FileListDto> {
    return toFileList(await this.files.list(computerCall(computerId, call), newId(), query.path ?? '.'));
  }

  /** Sends a file of any path on the computer, at most 100 MB, or of it the part that `Range` names; a directory as a tar. */
  @Get()
  @RequireScope('computers')
  @Operation('downloadComputerFile')
  @ApiHeader({ name: 'Range', required: false, description: 'One part of a file: bytes=0-499, bytes=500- or bytes=-500.' })
  @ApiOkResponse({ content: { 'application/octet-stream': bytes } })
  async download(
    @ComputerId() computerId: string,
    @Query() query: ComputerFileQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<StreamableFile> {
    const request = { path: query.path, range: call.header('range'), ifRange: call.header('if-range'), isHead: call.isHead };
    const download = await this.files.open(computerCall(computerId, call), newId(), request);
    describeDownload(download, call);
    return new StreamableFile(download.content);
  }

  /** Stores a file of at most 100 MB at a path of the computer's home, in whole or not at all: the body itself, or the file of a form. */
  @Put()
  @RequireScope('computers')
  @Operation('uploadComputerFile')
  @RawBody('stream')
  @ApiConsumes('application/octet-stream', 'multipart/form-data')
  @ApiExtraModels(ComputerFileFormDto)
  @ApiBody({ schema: { oneOf: [bytes.schema, { $ref: getSchemaPath(ComputerFileFormDto) }] } })
  @ApiResponse({ status: 201, type: StoredFileDto, description: 'There was no file at the path.' })
  @ApiResponse({ status: 200, type: StoredFileDto, description: 'The file was replaced.' })
  async upload(
    @ComputerId() computerId: string,
    @Query() { path, executable = false }: StoreComputerFileQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<StoredFileDto> {
    const stored = await this.files.put(
      computerCall(computerId, call),
      newId(),
      { path, executable },
      await uploadedFile(call.incoming, FORM),
    );
    call.setStatus(stored.created ? 201 : 200);
    return toStoredFile(stored);
  }
}
