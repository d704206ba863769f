import { Injectable } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';

import type { RequestContext } from '../../http/server/request-context.ts';
import { ResponseStreams, type ServerSentEvent, type Streamed } from '../../http/server/response-streams.ts';
import { toProblem } from '../../http/responses/problems.ts';
import { ReplyReaders } from './delivery/reply-readers.ts';
import type { Chat } from './intake/chat.ts';
import { SendChatMessage } from './messages.commands.ts';
import { toChatResponse } from './messages.dto.ts';
import { ReplyEvents } from './reply-events.ts';

/** Sends chat messages and streams the replies to their callers. */
@Injectable()
export class ChatStreams {
  constructor(
    private readonly commands: CommandBus,
    private readonly readers: ReplyReaders,
    private readonly streams: ResponseStreams,
  ) {}

  /**
   * Sends the message, and returns the stream of its reply once the message is stored: `accepted`, `delta` with each piece of the text, and
   * `reply` or `error`. The last event contains the whole reply, so clients need not join the deltas. If the caller disconnects, the turn
   * continues.
   */
  stream(call: RequestContext, chat: Chat, onAccepted: (woken: boolean) => void): Promise<Streamed> {
    return this.streams.events(call, (gone) => this.send(chat, call.requestId, gone, onAccepted));
  }

  private async send(
    chat: Chat,
    requestId: string,
    gone: AbortSignal,
    onAccepted: (woken: boolean) => void,
  ): Promise<AsyncIterable<ServerSentEvent>> {
    const { conversationId, messageId } = chat.ids;
    const events = new ReplyEvents({ conversation_id: conversationId, message_id: messageId });
    const unfollow = this.readers.add(messageId, (piece) => events.add(piece));
    const leave = () => {
      unfollow();
      events.drop();
    };
    gone.addEventListener('abort', leave);
    try {
      await new Promise<void>((resolve, reject) => {
        const accepted = (woken: boolean) => {
          onAccepted(woken);
          resolve();
        };
        this.commands.execute(new SendChatMessage(chat, accepted)).then(
          (reply) => events.end(toChatResponse(reply)),
          (error: unknown) => {
            reject(error);
            events.fail(toProblem(error, requestId).body);
          },
        );
      });
    } catch (error) {
      leave();
      throw error;
    }
    return events;
  }
}
