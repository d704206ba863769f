import type { AgentEndpoint } from './agent-endpoint.ts';
import type { ProtocolName } from './protocol-names.ts';

export type MessageChannel = 'chat' | 'webhook' | 'attachment';

export interface MessageAttachment {
  /** The path inside the container. */
  path: string;
  name: string;
  /** The size in bytes. */
  size: number;
  contentType: string;
}

export interface AgentMessage {
  /** A repeated delivery has the same id, so that an agent can drop it. */
  id: string;
  channel: MessageChannel;
  conversationId: string;
  text: string;
  /** The body of a webhook as it was sent: a string, or `{base64}` if it is not UTF-8. */
  payload?: unknown;
  contentType?: string;
  /** The webhook's headers, as `senderHeaders` gives them. */
  headers?: Record<string, string>;
  /** The address that the sender of the webhook called, without the agent's token. */
  url?: string;
  attachments?: MessageAttachment[];
}

export interface Turn {
  role: 'user' | 'assistant';
  text: string;
}

export const historyKeepers = ['mooring', 'agent'] as const;
export type HistoryKeeper = (typeof historyKeepers)[number];

/** The sign that an agent is ready: a 2xx response on a path, or a port that accepts connections. */
export type HealthCheck = { path: string } | { tcp: true };

/** The protocol of an agent. All members but the name come from its template. */
export interface ProtocolSpec {
  name: ProtocolName;
  /** The path, if it differs from the protocol's default. */
  path?: string;
  /** The model, for `openai`. */
  model?: string;
  /** The keeper of the conversation, for `openai`: Mooring (the default), which sends all of it each time, or the agent. */
  history?: HistoryKeeper;
  /** The id of the assistant or the graph, for `langgraph`. */
  assistantId?: string;
}

/** The memory reservation of one exchange. */
export interface ExchangeMemory {
  /** Called when the request was sent, or will not be sent. */
  releaseRequest(): void;
  /**
   * Resolves when memory for a reply of that many bytes is reserved. Rejects if the exchange has to end first. A second call releases the
   * previous reservation.
   */
  reserveReply(bytes: number): Promise<void>;
}

/** The agent to call, and the bounds on a call. */
export interface Exchange {
  endpoint: AgentEndpoint;
  /** The timeout of one call, until the last byte of the response, in ms. */
  timeoutMs: number;
  signal: AbortSignal;
  memory: ExchangeMemory;
}

/** The ids of a message that is about to be delivered. */
export interface PrepareRequest extends Exchange {
  messageId: string;
  conversationId: string;
  /** The path of the agent's public address, without a trailing slash. The agent may name addresses below it as its own. */
  publicPath: string;
  /** The `openTask` of the conversation's last reply. */
  openTask?: string | undefined;
  protocol: ProtocolSpec;
}

export interface Delivery extends Exchange {
  message: AgentMessage;
  /** The conversation so far, oldest first, if `needsHistory` is true; otherwise empty. */
  history: Turn[];
  protocol: ProtocolSpec;
  /** Receives the text of the reply as it arrives, if it has a reader. An agent that can't stream sends the reply in one piece. */
  onText?: ((piece: string) => void) | undefined;
}

export interface AgentReply {
  /** The reply: well-formed text without NUL, at most 1 MiB. */
  response: string;
  /** The id of the agent's task that waits for the next message, in a protocol that can't ask the agent for it. Matches `OPEN_TASK`. */
  openTask?: string;
}

/** The ids of tasks that are kept between messages. They are stored as they are, so texts are not accepted. */
export const OPEN_TASK = /^[\w.:-]{1,128}$/;

/** Delivers a message to the agent for which it was prepared. */
export type Deliver = (delivery: Delivery) => Promise<AgentReply>;

/**
 * Delivers messages to agents in one protocol. It makes one attempt; the caller retries. An adapter keeps no reference to the message and
 * the history while it waits for the reply, because thousands of exchanges wait concurrently. Rejects with `AgentUnreachable`,
 * `AgentBrokeConnection`, `AgentErrorResponse`, `ReplyTimeout`, or the signal's reason.
 */
export abstract class AgentProtocol {
  /**
   * Queries the agent for what has to be known before the delivery, and returns the function that delivers the message. The message is not
   * read before that, so that an agent that does not answer holds no memory.
   */
  abstract prepare(inquiry: PrepareRequest): Promise<Deliver>;
}

/** A failure of one request to an agent. Its message names the request as soon as that is known. */
export abstract class AgentFailure extends Error {
  private request: string | null = null;

  /** Names the request (see `requestName`) in the message, unless one is named already. */
  nameRequest(request: string): void {
    if (this.request !== null) return;
    this.request = request;
    this.message = this.messageFor(request);
  }

  protected abstract messageFor(request: string): string;
}

/** Runs work for a request. A failure of an agent that it throws names the request, unless it names one already. */
export async function inRequest<T>(request: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AgentFailure) error.nameRequest(request);
    throw error;
  }
}

/** The agent did not receive the whole message: nothing listens on its port, or the connection broke before. Another attempt may succeed. */
export class AgentUnreachable extends AgentFailure {
  readonly retryable = true;
  constructor(cause: unknown) {
    super('the agent could not be reached', { cause });
    this.name = 'AgentUnreachable';
  }

  protected messageFor(request: string): string {
    return `${request}: the agent could not be reached`;
  }
}

/**
 * The agent received the message, but then the connection broke, or the response is not HTTP or exceeds a bound. A retry could make the
 * agent repeat its work.
 */
export class AgentBrokeConnection extends AgentFailure {
  readonly retryable = false;
  constructor(
    private readonly how: string,
    cause?: unknown,
  ) {
    super(`the agent ${how}`, { cause });
    this.name = 'AgentBrokeConnection';
  }

  protected messageFor(request: string): string {
    return `${request}: the agent ${this.how}`;
  }
}

/** The agent responded, but not with a reply. `message` is short and contains the agent's text. */
export class AgentErrorResponse extends AgentFailure {
  /** The value is true for 5xx and 429; a retry after any other status would get the same response. */
  readonly retryable: boolean;
  constructor(
    readonly status: number,
    private readonly text: string,
  ) {
    super(`the agent answered ${status}: ${text}`);
    this.name = 'AgentErrorResponse';
    this.retryable = status >= 500 || status === 429;
  }

  /** Adds a sentence that helps the developer of the agent. */
  addHint(hint: string): void {
    this.message = `${this.message.replace(/\.$/, '')}. ${hint}`;
  }

  protected messageFor(request: string): string {
    return `${request} answered ${this.status}: ${this.text}`;
  }
}

/** The agent did not reply within the timeout. */
export class ReplyTimeout extends AgentFailure {
  constructor(private readonly timeoutMs: number) {
    super(`the agent did not reply within ${secondsOf(timeoutMs)} s`);
    this.name = 'ReplyTimeout';
  }

  protected messageFor(request: string): string {
    return `${request}: the agent did not reply within ${secondsOf(this.timeoutMs)} s`;
  }
}

/** Returns the time in seconds; whole ones, since what is left of a timeout has many digits. */
function secondsOf(ms: number): number {
  return ms < 1_000 ? ms / 1_000 : Math.round(ms / 1_000);
}
