import { Body, Controller, Delete, Get, HttpCode, Param, Put } from '@nestjs/common';

import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { SourceCredentialDto, SourcePathDto, StoreSourceCredentialDto, toSourceCredentialDto } from './source-credentials.dto.ts';
import { AccountSourceCredentials } from './account-source-credentials.service.ts';

/** The credentials with which an account's images are pulled, and its repositories cloned, from exactly one host each. */
@Controller('api/v1/source-credentials')
@RequireScope('secrets')
export class SourceCredentialsController {
  constructor(private readonly credentials: AccountSourceCredentials) {}

  /** Lists all source credentials of the account, newest first, without their passwords. */
  @Get()
  async list(@CurrentRequest() { accountId }: RequestContext): Promise<SourceCredentialDto[]> {
    return (await this.credentials.list(accountId)).map(toSourceCredentialDto);
  }

  /** Makes the credential for the host (201) or replaces it (200). */
  @Put(':kind/:host')
  async store(
    @Param() source: SourcePathDto,
    @Body() given: StoreSourceCredentialDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<SourceCredentialDto> {
    const { credential, made } = await this.credentials.store(call.context, call.accountId, source, given);
    call.setStatus(made ? 201 : 200);
    return toSourceCredentialDto(credential);
  }

  @Delete(':kind/:host')
  @HttpCode(204)
  remove(@Param() source: SourcePathDto, @CurrentRequest() { context, accountId }: RequestContext): Promise<void> {
    return this.credentials.remove(context, accountId, source);
  }
}
