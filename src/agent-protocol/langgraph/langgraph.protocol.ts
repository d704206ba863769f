import { v5 as uuidv5 } from 'uuid';
import { callForEvents, callForJson } from '../agent-exchange.ts';
import {
  AgentErrorResponse,
  AgentProtocol,
  inRequest,
  type AgentReply,
  type Deliver,
  type Delivery,
  type PrepareRequest,
  type ProtocolSpec,
} from '../protocol.ts';
import { RunEvents } from './run-events.ts';
import { interruptText, lastReply } from './langgraph-messages.ts';
import { messageText } from '../message-text.ts';
import { poll } from '../poll.ts';
import { ReplyText, wellFormed } from '../reply-text.ts';
import { requestName } from '../request-name.ts';

/** The id of an agent's thread is derived from the id of the conversation. */
const THREAD_NAMESPACE = '7d0f3c1e-52c7-4c39-8a3b-6b1f5d9a2e60';
/** The path on which an agent finds threads. */
const SEARCH = '/threads/search';
/** The id of the graph in the framework's own examples. */
const ASSISTANT = 'agent';
/** The member of a run's metadata with the id of the message that the run answers. */
const MESSAGE_ID = 'mooring_message_id';

/** A thread of the agent. `interrupts` are the questions at which its last run was interrupted, by task. */
interface Thread {
  thread_id?: unknown;
  status?: unknown;
  interrupts?: unknown;
}

/** The state of a thread at a checkpoint. `next` are the nodes that were still to run. */
interface ThreadState {
  values?: { messages?: unknown };
  next?: unknown;
}

/**
 * The protocol of LangGraph servers: the agent keeps a thread for each conversation, and answers a message with a run on the thread. Runs
 * are streamed, because the response would otherwise be the whole thread, which grows without bound. If an earlier delivery of the message
 * has started a run, that run is awaited and no second one is started. If a run was interrupted by a question, the next message is the
 * answer.
 */
export class LangGraphProtocol extends AgentProtocol {
  async prepare(inquiry: PrepareRequest): Promise<Deliver> {
    const find = (timeoutMs: number) => new AgentThread({ ...inquiry, timeoutMs }).find(inquiry.messageId);
    const found = await inRequest(requestName('POST', pathIn(inquiry.protocol, SEARCH)), () => poll(inquiry, find));
    if ('response' in found) return () => Promise.resolve(found);
    return (delivery) => run(delivery, found.isInterrupted);
  }
}

/** One thread at the agent. */
class AgentThread {
  constructor(private readonly inquiry: PrepareRequest) {}

  /**
   * Returns the reply of an earlier run for the message, or else whether the thread is interrupted. Returns null while another run is in
   * progress, which may be the one for the message.
   */
  async find(messageId: string): Promise<AgentReply | { isInterrupted: boolean } | null> {
    const thread = await this.thread();
    if (thread === undefined) return { isInterrupted: false };
    const questions = interruptText(thread.interrupts);
    const state = await this.stateAfter(messageId);
    if (state !== undefined) {
      if (isDone(state)) return replyIn(lastReply(state.values?.messages, messageId));
      if (questions !== null) return { response: wellFormed(questions) };
    }
    return thread.status === 'busy' ? null : { isInterrupted: questions !== null };
  }

  private async thread(): Promise<Thread | undefined> {
    const id = threadOf(this.inquiry.conversationId);
    const found = await this.post(SEARCH, { ids: [id], limit: 1, select: ['thread_id', 'status', 'interrupts'] });
    return (found as (Thread | null)[]).find((thread) => thread?.thread_id === id) ?? undefined;
  }

  /** Returns the thread's latest state after a run for the message. */
  private async stateAfter(messageId: string): Promise<ThreadState | undefined> {
    const path = `/threads/${threadOf(this.inquiry.conversationId)}/history`;
    const [state] = await this.post(path, { limit: 1, metadata: { [MESSAGE_ID]: messageId } });
    return state ?? undefined;
  }

  private async post(path: string, query: object): Promise<unknown[]> {
    const { endpoint, timeoutMs, signal, memory, protocol } = this.inquiry;
    const call = { endpoint, timeoutMs, signal, memory, path: pathIn(protocol, path), body: JSON.stringify(query) };
    return callForJson(call, (answer) => {
      if (!Array.isArray(answer)) throw new AgentErrorResponse(200, 'the answer is no list');
      return answer as unknown[];
    });
  }
}

function isDone({ next }: ThreadState): boolean {
  return Array.isArray(next) && next.length === 0;
}

function pathIn(protocol: ProtocolSpec, path: string): string {
  return `${protocol.path ?? ''}${path}`;
}

function threadOf(conversationId: string): string {
  return uuidv5(conversationId, THREAD_NAMESPACE);
}

function run(delivery: Delivery, isInterrupted: boolean): Promise<AgentReply> {
  const { message, protocol, onText, endpoint, timeoutMs, signal, memory } = delivery;
  const text = messageText(message);
  const human = { role: 'user', id: message.id, content: text };
  const body = JSON.stringify({
    assistant_id: protocol.assistantId ?? ASSISTANT,
    ...(isInterrupted ? { command: { resume: text } } : { input: { messages: [human] } }),
    metadata: { [MESSAGE_ID]: message.id },
    if_not_exists: 'create',
    multitask_strategy: 'enqueue',
    stream_mode: onText === undefined ? ['updates'] : ['updates', 'messages-tuple'],
  });
  const events = new RunEvents(new ReplyText(onText));
  const path = pathIn(protocol, `/threads/${threadOf(message.conversationId)}/runs/stream`);
  const call = { endpoint, timeoutMs, signal, memory, path, body };
  return callForEvents(
    call,
    (event) => events.apply(event),
    (answer) => {
      if (answer !== undefined) throw new AgentErrorResponse(200, 'the answer is no stream of events');
      return replyIn(events.reply());
    },
  );
}

function replyIn(text: string | null): AgentReply {
  if (text === null) throw new AgentErrorResponse(200, 'the run ended without a message of the agent');
  return { response: wellFormed(text) };
}
