import { Body, Controller, Get, HttpCode, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Config } from '../../kernel/config/config.ts';
import { Public, RequireCaller, RequireSession } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { LoginLimiter } from '../../http/limits/login-limiter.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AccountDto, LoginDto, RegisterDto, SessionDto, toAccountDto } from './accounts.dto.ts';
import { OpenAccount } from './accounts.commands.ts';
import { accountsProjection } from './accounts.projection.ts';
import { GetAccount } from './accounts.queries.ts';
import { SignIn } from './sign-in.service.ts';

@Controller('api/auth')
export class AuthController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly signIn: SignIn,
    private readonly limiter: LoginLimiter,
    private readonly config: Config,
  ) {}

  /** Opens an account for the caller, if the operator allows it. Ten tries an hour come from one address (429 with `Retry-After`). */
  @Post('register')
  @Public()
  async register(@Body() { email, password, name }: RegisterDto, @CurrentRequest() { context }: RequestContext): Promise<AccountDto> {
    if (!this.config.openRegistration)
      throw new ProblemError('registration_closed', 'Registration is closed. Ask an administrator for an account.');
    await this.limiter.consumeRegistration(context.ip ?? '');
    return toAccountDto(await this.commands.execute(new OpenAccount(context, { email, password, name, role: 'member' }, null)));
  }

  /** Signs in. An address has 10 tries a minute; while many try one account, a new address waits for its turn (429 with `Retry-After`). */
  @Post('login')
  @HttpCode(200)
  @Public()
  async login(@Body() { email, password }: LoginDto, @CurrentRequest() { context }: RequestContext): Promise<SessionDto> {
    const { token, expiresAt } = await this.signIn.signIn(email, password, context);
    return { session_token: token, expires_at: expiresAt.toISOString() };
  }

  /** Ends the session whose token is sent, and what else is open under it: streams break off, and who waits gets 401. */
  @Post('logout')
  @HttpCode(204)
  @RequireSession()
  logout(@CurrentRequest() call: RequestContext): Promise<void> {
    call.outliveCredential();
    return this.signIn.signOut(call.credential, call.accountId, call.context);
  }

  @Get('me')
  @RequireCaller()
  @ReadsModel(accountsProjection.name)
  async me(@CurrentRequest() { accountId }: RequestContext): Promise<AccountDto> {
    return toAccountDto(await this.queries.execute(new GetAccount(accountId)));
  }
}
