import { Body, Controller, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiOkResponse } from '@nestjs/swagger';
import { AgentId } from '../agents/index.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import { RequireScope } from '../../http/auth/access.ts';
import { Operation } from '../../http/requests/operation.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { EVENT_STREAM, type Streamed } from '../../http/server/response-streams.ts';
import { LargeRead } from '../../http/limits/large-reads.interceptor.ts';
import { ReadsModel } from '../../http/responses/reads-model.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ChatStreams } from './chat-streams.service.ts';
import { ListConversations } from './conversations/conversations.queries.ts';
import { chatIds } from './intake/chat.ts';
import { ChatDto, ChatResponseDto, ConversationPathDto, type ConversationView, toChatResponse } from './messages.dto.ts';
import { ListMessages } from './messages.queries.ts';
import { SendChatMessage } from './messages.commands.ts';
import type { ThreadMessage } from './conversations/threads.ts';

@Controller('api/agents/:agentId')
export class MessagesController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly chats: ChatStreams,
  ) {}

  /**
   * Sends a message and waits for the reply. Wakes a sleeping agent. With `Accept: text/event-stream` the reply is streamed as it comes. A
   * caller who goes away does not end the turn: the reply is in the thread afterwards.
   */
  @Post('chat')
  @Operation('chatWithAgent')
  @HttpCode(200)
  @RequireScope('deploy')
  @Idempotent({ sealedFor: 'agentId' })
  @ApiOkResponse({ type: ChatResponseDto })
  async chat(
    @AgentId() agentId: string,
    @Body() body: ChatDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ChatResponseDto | Streamed> {
    const { context, accountId, attempt } = call;
    const conversationId = body.conversation_id?.toLowerCase() ?? null;
    const ids = chatIds(attempt, conversationId);
    const chat = { context, accountId, agentId, text: body.message, ids, begins: conversationId === null, attempt };
    // Thousands of callers may wait for replies. What they sent is stored, so it need not stay in memory.
    body.message = '';
    call.releaseBody();
    const onAccepted = (woken: boolean) => {
      if (woken) call.setAgentWoken();
    };
    if (call.accepts(EVENT_STREAM)) return this.chats.stream(call, chat, onAccepted);
    return toChatResponse(await this.commands.execute(new SendChatMessage(chat, onAccepted)));
  }

  @Get('conversations')
  @RequireScope('provision', 'deploy', 'manage')
  @ReadsModel('agents', 'conversations')
  async conversations(
    @AgentId() agentId: string,
    @Query() query: PageQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ConversationView[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListConversations(agentId, call.accountId, limit, place));
    call.linkAfter(rows, limit, (last) => [last.updated_at.toISOString(), last.conversation_id]);
    return rows.map((row) => ({
      id: row.conversation_id,
      channel: row.channel,
      messages: row.messages,
      createdAt: row.created_at.toISOString(),
      updatedAt: row.updated_at.toISOString(),
    }));
  }

  /**
   * Lists a conversation's latest messages, oldest first. The `Link` header leads to the page of earlier ones. A page ends early when its
   * texts reach 1 MiB.
   */
  @Get('conversations/:conversationId/messages')
  @Operation('listAgentMessages')
  @LargeRead()
  @RequireScope('provision', 'deploy', 'manage')
  async messages(
    @Param() { agentId, conversationId }: ConversationPathDto,
    @Query() query: PageQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<ThreadMessage[]> {
    if (!/^[0-9a-f-]{36}$/.test(conversationId)) throw new ProblemError('conversation_not_found', 'The agent has no such conversation.');
    const { limit, place } = call.page(query, 'count');
    const page = await this.queries.execute(new ListMessages(call.accountId, agentId, conversationId, limit, place?.[0] ?? null));
    if (page.olderBefore !== null) call.linkNextPage([page.olderBefore]);
    return page.messages;
  }
}
