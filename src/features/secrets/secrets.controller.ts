import { Body, Controller, Delete, Get, HttpCode, Param, Put } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { RequireScope } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { AccountSecrets } from './account-secrets.service.ts';
import { RemoveSecret, StoreSecret } from './secrets.commands.ts';
import { SecretDto, StoreSecretDto, toSecretDto, UsedSecretDto } from './secrets.dto.ts';
import { CountSecretUsers } from './secrets.queries.ts';

/** The name of the read model of the variables that refer to secrets. */
const SECRET_USES = 'secret_uses';

/** The secrets of an account. Variables of its agents can take their values from them; nobody can read one. */
@Controller('api/v1/secrets')
@RequireScope('secrets')
export class SecretsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly secrets: AccountSecrets,
  ) {}

  /** Lists all secrets of the account, newest first, without their values. */
  @Get()
  @ReadsModel(SECRET_USES)
  async list(@CurrentRequest() { accountId }: RequestContext): Promise<UsedSecretDto[]> {
    const [secrets, users] = await Promise.all([this.secrets.of(accountId), this.queries.execute(new CountSecretUsers(accountId))]);
    return [...secrets]
      .map(([name, secret]) => Object.assign(toSecretDto({ name, ...secret }), { used_by: users.get(name) ?? 0 }))
      .sort((one, other) => Date.parse(other.created_at) - Date.parse(one.created_at));
  }

  /** Makes the secret (201) or replaces its value (200). Agents take the value at their next deployment, restart, or start after a stop. */
  @Put(':name')
  async store(@Param('name') name: string, @Body() { value }: StoreSecretDto, @CurrentRequest() call: RequestContext): Promise<SecretDto> {
    const { secret, isNew } = await this.commands.execute(new StoreSecret(call.context, call.accountId, name, value));
    call.setStatus(isNew ? 201 : 200);
    return toSecretDto(secret);
  }

  /** Removes the secret, unless a variable of an agent refers to it. */
  @Delete(':name')
  @HttpCode(204)
  @ReadsModel(SECRET_USES)
  remove(@Param('name') name: string, @CurrentRequest() { context, accountId }: RequestContext): Promise<void> {
    return this.commands.execute(new RemoveSecret(context, accountId, name));
  }
}
