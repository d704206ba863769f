import { AgentErrorResponse, AgentProtocol, type AgentMessage, type AgentReply, type Deliver, type Delivery } from '../protocol.ts';
import { callForJson } from '../agent-exchange.ts';
import { wellFormed } from '../reply-text.ts';

const PATH = '/messages';
const PROTOCOL_HINT =
  'If the agent speaks another protocol, name it as protocol in its mooring.json; the guide “Bring your own agent” says what an agent has to ' +
  'answer.';

/**
 * Mooring's own protocol: POST /messages with the response `{response}`. An empty 2xx response is an empty reply. The agent keeps its
 * threads.
 */
export class MooringProtocol extends AgentProtocol {
  prepare(): Promise<Deliver> {
    return Promise.resolve(deliver);
  }
}

function deliver({ message, protocol, endpoint, timeoutMs, signal, memory }: Delivery): Promise<AgentReply> {
  const path = protocol.path ?? PATH;
  return callForJson({ endpoint, timeoutMs, signal, memory, path, body: JSON.stringify(bodyOf(message)) }, replyIn).catch(withHint);
}

/** Throws the error. One that says that the agent has no such route proposes why. */
function withHint(error: unknown): never {
  if (error instanceof AgentErrorResponse && (error.status === 404 || error.status === 405)) error.addHint(PROTOCOL_HINT);
  throw error;
}

function bodyOf(message: AgentMessage): object {
  return {
    id: message.id,
    channel: message.channel,
    conversation_id: message.conversationId,
    text: message.text,
    payload: message.payload ?? null,
    content_type: message.contentType ?? null,
    headers: message.headers ?? {},
    url: message.url ?? null,
    attachments: (message.attachments ?? []).map(({ path, name, size, contentType }) => ({ path, name, size, content_type: contentType })),
  };
}

function replyIn(answer: unknown): AgentReply {
  if (answer === null) return { response: '' };
  const { response } = answer as { response?: unknown };
  if (typeof response !== 'string') throw new AgentErrorResponse(200, 'the answer has no text named "response"');
  return { response: wellFormed(response) };
}
