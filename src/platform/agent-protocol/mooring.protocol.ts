import { AgentErrorResponse, AgentProtocol, type AgentMessage, type Delivery } from './delivery.ts';
import { allowedHeaders } from './allowed-headers.ts';
import { jsonBody, postJson, wellFormed } from './post-json.ts';

const PATH = '/messages';

/**
 * Mooring's own protocol: POST /messages, with the response `{response}`. An empty 2xx response is an empty reply. The agent keeps its
 * threads.
 */
export class MooringProtocol extends AgentProtocol {
  deliver({ message, protocol, ...delivery }: Delivery): Promise<{ response: string }> {
    return postJson({ ...delivery, path: protocol.path ?? PATH, body: jsonBody(bodyOf(message)) }).then(replyIn);
  }
}

function bodyOf(message: AgentMessage): object {
  return {
    id: message.id,
    channel: message.channel,
    conversation_id: message.conversationId,
    text: message.text,
    payload: message.payload ?? null,
    content_type: message.contentType ?? null,
    headers: allowedHeaders(message.headers ?? {}),
    attachments: (message.attachments ?? []).map(({ path, name, size, contentType }) => ({ path, name, size, content_type: contentType })),
  };
}

function replyIn(answer: unknown): { response: string } {
  if (answer === null) return { response: '' };
  const { response } = answer as { response?: unknown };
  if (typeof response !== 'string') throw new AgentErrorResponse(200, 'the answer has no text named "response"');
  return { response: wellFormed(response) };
}
