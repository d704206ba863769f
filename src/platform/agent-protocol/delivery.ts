export type MessageChannel = 'chat' | 'webhook' | 'attachment';

export interface MessageAttachment {
  /** Inside the container. */
  path: string;
  name: string;
  /** Bytes. */
  size: number;
  contentType: string;
}

export interface AgentMessage {
  /** The same on a second delivery: an agent can drop it. */
  id: string;
  channel: MessageChannel;
  conversationId: string;
  text: string;
  /** What a webhook brought: a JSON value, or text. */
  payload?: unknown;
  contentType?: string;
  /** The webhook's, cut down to those that `allowedHeaders` names. */
  headers?: Record<string, string>;
  attachments?: MessageAttachment[];
}

export interface Turn {
  role: 'user' | 'assistant';
  text: string;
}

export const protocolNames = ['mooring', 'openai'] as const;
export type ProtocolName = (typeof protocolNames)[number];

/** How an agent wants to be spoken to; from its template. */
export interface ProtocolSpec {
  name: ProtocolName;
  /** Instead of the protocol's own. */
  path?: string;
  /** For `openai`. */
  model?: string;
}

/** The bytes that one exchange may hold in memory. */
export interface ExchangeRoom {
  /** The request has left the process, or will not be sent. */
  sent(): void;
  /** Resolves when there is room for a reply of so many bytes. Rejects where the exchange has to end first. */
  forReply(bytes: number): Promise<void>;
}

export interface Delivery {
  host: string;
  port: number;
  message: AgentMessage;
  /** The conversation so far, oldest first, for protocols whose agents keep no thread. */
  history: Turn[];
  protocol: ProtocolSpec;
  /** For the whole exchange, until the last byte of the reply. */
  timeoutMs: number;
  signal: AbortSignal;
  room: ExchangeRoom;
}

/**
 * How a message reaches an agent. One attempt; retries are the caller's. An adapter keeps no reference to the message and the history
 * while it waits for the reply: thousands of exchanges wait at once. Rejects with `AgentUnreachable`, `AgentBrokeOff`,
 * `AgentAnsweredError`, `ReplyTimeout`, or the signal's reason.
 */
export abstract class AgentProtocol {
  /** The reply is well-formed text without NUL, at most 1 MiB. */
  abstract deliver(delivery: Delivery): Promise<{ response: string }>;
}

/** The agent did not get the whole message: nobody listens, or the connection broke before. Another attempt may succeed. */
export class AgentUnreachable extends Error {
  readonly retryable = true;
  constructor(cause: unknown) {
    super('the agent could not be reached', { cause });
    this.name = 'AgentUnreachable';
  }
}

/**
 * The agent got the message, and then the connection broke, or what came is no HTTP or goes beyond all bounds. A repeat would have the
 * agent do again what it may have done.
 */
export class AgentBrokeOff extends Error {
  readonly retryable = false;
  constructor(how: string, cause?: unknown) {
    super(`the agent ${how}`, { cause });
    this.name = 'AgentBrokeOff';
  }
}

/** The agent answered, but with no reply. `message` is short and holds what the agent said. */
export class AgentAnsweredError extends Error {
  /** 5xx and 429; a repeat of anything else would hear the same. */
  readonly retryable: boolean;
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(`the agent answered ${status}: ${text}`);
    this.name = 'AgentAnsweredError';
    this.retryable = status >= 500 || status === 429;
  }
}

/** The agent took longer than it may. */
export class ReplyTimeout extends Error {
  constructor(timeoutMs: number) {
    super(`the agent did not reply within ${timeoutMs / 1_000} s`);
    this.name = 'ReplyTimeout';
  }
}
