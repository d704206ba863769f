import { Body, Controller, Get, HttpCode, Post, Req, Res } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { Config } from '../platform/config/config.ts';
import { Public, RequireCaller, RequireSession } from '../platform/http/auth/access.ts';
import { Context, CurrentCaller } from '../platform/http/request.ts';
import type { Caller } from '../platform/context/caller.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { credentialOf } from '../platform/http/auth/gate.ts';
import { OpenRequests } from '../platform/http/auth/open-requests.ts';
import { ReadsModel } from '../platform/http/responses/positions.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import { accountView, AccountView, Login, Registration, Session } from './account.dto.ts';
import { OpenAccount } from './accounts.handlers.ts';
import { accountsProjection, GetAccount, GetWrittenAccount } from './accounts.projection.ts';
import { SignIn } from './sign-in.service.ts';

@Controller('api/auth')
export class AuthController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly signIn: SignIn,
    private readonly config: Config,
    private readonly requests: OpenRequests,
  ) {}

  /** Opens an account for the caller, if the operator allows it. */
  @Post('register')
  @Public()
  async register(@Body() { email, password, name }: Registration, @Context() context: CommandContext): Promise<AccountView> {
    if (!this.config.openRegistration)
      throw new Refusal('registration_closed', 'Registration is closed. Ask an administrator for an account.');
    const id = await this.commands.execute(new OpenAccount(context, { email, password, name, role: 'member' }, null));
    return accountView(await this.queries.execute(new GetWrittenAccount(id)));
  }

  /** Signs in. An address has 10 tries a minute; while many try one account, a new address waits for its turn (429 with `Retry-After`). */
  @Post('login')
  @HttpCode(200)
  @Public()
  async login(@Body() { email, password }: Login, @Context() context: CommandContext): Promise<Session> {
    const { token, expiresAt } = await this.signIn.signIn(email, password, context);
    return { session_token: token, expires_at: expiresAt.toISOString() };
  }

  /** Ends the session whose token is sent, and what else is open under it: streams break off, and who waits gets 401. */
  @Post('logout')
  @HttpCode(204)
  @RequireSession()
  logout(
    @Req() request: FastifyRequest,
    @CurrentCaller() caller: Caller,
    @Context() context: CommandContext,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    this.requests.remove(caller, reply);
    return this.signIn.signOut(credentialOf(request), caller.accountId, context);
  }

  @Get('me')
  @RequireCaller()
  @ReadsModel(accountsProjection.name)
  async me(@CurrentCaller() caller: Caller): Promise<AccountView> {
    return accountView(await this.queries.execute(new GetAccount(caller.accountId)));
  }
}
