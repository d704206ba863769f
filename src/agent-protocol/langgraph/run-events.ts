import { AgentErrorResponse } from '../protocol.ts';
import type { ReceivedEvent } from '../event-stream-parser.ts';
import { agentText, interruptText, lastReply } from './langgraph-messages.ts';
import { parsedEvent, shortened, type ReplyText } from '../reply-text.ts';

/** The member of an update with the questions at which the run was interrupted. */
const INTERRUPT = '__interrupt__';

/** Collects the events of a run: `updates` of the graph's nodes, in which the last message of the agent is the reply, and `messages`. */
export class RunEvents {
  private last: string | null = null;
  private questions: string | null = null;
  private streamedMessage: unknown;

  /** `progress` receives the agent's text while the graph runs. */
  constructor(private readonly progress: ReplyText) {}

  /** Applies an event. Returns true after the run's last one. Throws `AgentErrorResponse` if the run failed. */
  apply({ event, data }: ReceivedEvent): boolean {
    if (event === 'end') return true;
    if (event === 'error') throw new AgentErrorResponse(502, errorIn(parsedEvent(data)));
    if (event === 'updates') this.update(parsedEvent(data));
    else if (event === 'messages') this.addMessage(parsedEvent(data));
    return false;
  }

  /** Returns the reply: the questions at which the run was interrupted, or else the agent's last message; null if there is neither. */
  reply(): string | null {
    this.progress.end();
    return this.questions ?? this.last;
  }

  private update(nodes: unknown): void {
    for (const [node, update] of Object.entries((nodes ?? {}) as Record<string, unknown>)) {
      if (node === INTERRUPT) this.questions = interruptText(update);
      else for (const part of Array.isArray(update) ? (update as unknown[]) : [update]) this.last = messagesIn(part) ?? this.last;
    }
  }

  private addMessage(pair: unknown): void {
    const [message] = (Array.isArray(pair) ? pair : []) as unknown[];
    const text = agentText(message);
    if (text === null || text === '') return;
    const { id } = message as { id?: unknown };
    if (this.streamedMessage !== id && !this.progress.isEmpty) this.progress.add('\n\n');
    this.streamedMessage = id;
    this.progress.add(text);
  }
}

function messagesIn(update: unknown): string | null {
  return lastReply((update as { messages?: unknown } | null | undefined)?.messages);
}

function errorIn(said: unknown): string {
  if (typeof said === 'string') return shortened(said);
  const { message, error } = (said ?? {}) as { message?: unknown; error?: unknown };
  const text = [message, error].find((each) => typeof each === 'string');
  return text === undefined ? 'an error' : shortened(text);
}
