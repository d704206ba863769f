import { Injectable } from '@nestjs/common';

import { Keyring, type KeyUse, type Sealed } from '../../../crypto/keyring.ts';
import { Aggregates, type CommandResult, type ExecuteOptions } from '../../../eventsourcing/aggregates/aggregates.ts';
import type { Loaded } from '../../../eventsourcing/aggregates/dated-state.ts';
import type { Position } from '../../../eventsourcing/event-store/event-store.ts';
import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { Clock } from '../../../kernel/clock.ts';
import { EventWaits } from '../../../eventsourcing/log/event-waits.ts';
import { conversationDecider, hasDueMessage, type ConversationCommand, type ConversationState } from './conversations.decider.ts';
import type { ConversationEvent } from './conversations.events.ts';

/** The first text of a message, the further parts of a long message (starting with `part 1`), or the reply. */
export type TextPart = 'text' | 'reply' | `part ${number}`;

/** Texts are sealed for the delivery, or for the caller who waits, and their agents' ends are in the log. */
const TEXT_USE: KeyUse = { endIsLogged: true, isReadNext: true };

/** Loads conversations, executes commands on them, and encrypts their texts. */
@Injectable()
export class Conversations {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly waits: EventWaits,
    private readonly clock: Clock,
  ) {}

  /** Returns the newest state of the conversation. See `Aggregates.load` for `upTo`. */
  load(conversationId: string, upTo?: Position): Promise<Loaded<ConversationState>> {
    return this.aggregates.load(conversationStream(conversationId), conversationDecider, upTo);
  }

  /**
   * Resolves with true once no message of the conversation is due: none waits, or the first one waits for its retry. Resolves with false if
   * nothing happens in the conversation for that time, the signal aborts, or the service stops.
   */
  async waitUntilNothingIsDue(conversationId: string, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    using watch = this.waits.watch(conversationStream(conversationId));
    for (;;) {
      const { state } = await this.load(conversationId);
      if (state === null || !hasDueMessage(state, this.clock.now())) return true;
      if ((await watch.next(timeoutMs, signal)) === null) return false;
    }
  }

  execute(
    conversationId: string,
    command: ConversationCommand,
    context: CommandContext,
    options?: ExecuteOptions<ConversationEvent>,
  ): Promise<CommandResult<ConversationState>> {
    return this.aggregates.execute(conversationStream(conversationId), conversationDecider, command, context, options);
  }

  /** Encrypts the text of a message, a part of it, or the reply, with the agent's data key. */
  seal(agentId: string, messageId: string, part: TextPart, plain: string): Promise<Sealed> {
    return this.keyring.seal(agentId, textContext(messageId, part), plain, TEXT_USE);
  }

  /** Returns the decrypted text; null if the agent was deleted. */
  open(agentId: string, messageId: string, part: TextPart, sealed: Sealed): Promise<string | null> {
    return this.keyring.open(agentId, textContext(messageId, part), sealed, TEXT_USE);
  }
}

/** Returns the name of the conversation's stream. */
export function conversationStream(conversationId: string): string {
  return `conversation-${conversationId}`;
}

/** Returns the context that an encrypted text is bound to. It can't be decrypted in another one. */
export function textContext(messageId: string, part: TextPart): string {
  return `message ${messageId} ${part}`;
}
