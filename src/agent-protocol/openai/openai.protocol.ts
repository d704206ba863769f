import { callForEvents } from '../agent-exchange.ts';
import {
  AgentBrokeConnection,
  AgentErrorResponse,
  AgentProtocol,
  type AgentMessage,
  type AgentReply,
  type Deliver,
  type Delivery,
  type Turn,
} from '../protocol.ts';
import { messageText } from '../message-text.ts';
import { parsedEvent, ReplyText, shortened, wellFormed } from '../reply-text.ts';

const PATH = '/v1/chat/completions';

/**
 * The chat completions protocol. Most agents keep no thread, so the whole conversation is sent each time. An agent that keeps threads
 * (`history: agent`) gets only the new message, and identifies the thread by `user`, the conversation's id.
 */
export class OpenAiProtocol extends AgentProtocol {
  prepare(): Promise<Deliver> {
    return Promise.resolve(deliver);
  }
}

function deliver({ message, history, protocol, onText, endpoint, timeoutMs, signal, memory }: Delivery): Promise<AgentReply> {
  const body = JSON.stringify(bodyOf(message, history, protocol.model, onText !== undefined));
  const completion = new StreamedCompletion(new ReplyText(onText));
  const call = { endpoint, timeoutMs, signal, memory, path: protocol.path ?? PATH, body };
  return callForEvents(
    call,
    ({ data }) => completion.apply(data),
    (answer) => ({ response: answer === undefined ? completion.end() : wellFormed(replyIn(answer)) }),
  );
}

function bodyOf(message: AgentMessage, history: readonly Turn[], model = 'default', stream: boolean): object {
  const turns = [...history, { role: 'user' as const, text: messageText(message) }];
  return { model, messages: turns.map(({ role, text }) => ({ role, content: text })), user: message.conversationId, stream };
}

/** The message of a completion, or a part of it. */
interface CompletionMessage {
  content?: unknown;
  /** The text in which the model refuses to reply. */
  refusal?: unknown;
  tool_calls?: unknown;
}

interface Completion {
  choices?: { message?: CompletionMessage }[];
  error?: { message?: unknown };
}

const CALLS_TOOLS = 'the answer calls tools, which nobody runs: an agent has to run its tools itself and then reply';

function replyIn(answer: unknown): string {
  const { choices, error } = (answer ?? {}) as Completion;
  refuseError(error);
  const message = (Array.isArray(choices) ? choices[0]?.message : undefined) ?? {};
  const text = textOfMessage(message);
  if (text !== null) return text;
  throw new AgentErrorResponse(200, callsTools(message) ? CALLS_TOOLS : 'the answer has no choices[0].message.content');
}

/** Returns the text of a message: its content, or else its refusal; null if it has neither. */
function textOfMessage({ content, refusal }: CompletionMessage): string | null {
  return textOfContent(content) ?? (typeof refusal === 'string' ? refusal : null);
}

function callsTools({ tool_calls: calls }: CompletionMessage): boolean {
  return Array.isArray(calls) && calls.length > 0;
}

interface Chunk {
  choices?: { delta?: CompletionMessage; finish_reason?: unknown }[];
  error?: { message?: unknown };
}

/** A completion that is streamed in chunks. */
class StreamedCompletion {
  private isComplete = false;
  private callsTools = false;

  constructor(private readonly reply: ReplyText) {}

  /** Applies the data of an event. Returns true after the last one. */
  apply(data: string): boolean {
    if (data === '[DONE]') {
      this.isComplete = true;
      return true;
    }
    const { choices, error } = (parsedEvent(data) ?? {}) as Chunk;
    refuseError(error);
    const choice = Array.isArray(choices) ? choices[0] : undefined;
    const delta = choice?.delta ?? {};
    this.reply.add(textOfMessage(delta) ?? '');
    this.callsTools ||= callsTools(delta);
    if (typeof choice?.finish_reason === 'string') this.isComplete = true;
    return false;
  }

  end(): string {
    if (!this.isComplete) throw new AgentBrokeConnection('ended its reply before it was complete');
    const text = this.reply.end();
    if (this.callsTools && text === '') throw new AgentErrorResponse(200, CALLS_TOOLS);
    return text;
  }
}

/** Throws for an error that a server reports with status 200, or within a stream. */
function refuseError(error: { message?: unknown } | null | undefined): void {
  if (error === undefined || error === null) return;
  throw new AgentErrorResponse(502, typeof error.message === 'string' ? shortened(error.message) : 'an error');
}

/** Returns the text of a message's content, which is a string or a list of parts; null if it is neither. */
function textOfContent(content: unknown): string | null {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map(textOfPart).join('') : null;
}

function textOfPart(part: unknown): string {
  const { text } = (part ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
