import { AgentErrorResponse, AgentProtocol, type AgentMessage, type Delivery, type Turn } from './delivery.ts';
import { jsonBody, postJson, wellFormed } from './post-json.ts';

const PATH = '/v1/chat/completions';

/** The chat completions protocol. Its agents keep no thread, so the whole conversation is sent each time. */
export class OpenAiProtocol extends AgentProtocol {
  deliver({ message, history, protocol, ...delivery }: Delivery): Promise<{ response: string }> {
    const body = jsonBody(bodyOf(message, history, protocol.model));
    return postJson({ ...delivery, path: protocol.path ?? PATH, body }).then((answer) => ({ response: wellFormed(replyIn(answer)) }));
  }
}

function bodyOf(message: AgentMessage, history: readonly Turn[], model = 'default'): object {
  const turns = [...history, { role: 'user' as const, text: contentOf(message) }];
  return { model, messages: turns.map(({ role, text }) => ({ role, content: text })), user: message.conversationId, stream: false };
}

/** Returns all of a message as text, since the protocol has no place for payload and attachments. */
function contentOf({ text, payload, attachments = [] }: AgentMessage): string {
  const parts = text === '' ? [] : [text];
  if (payload !== undefined && payload !== null) parts.push(typeof payload === 'string' ? payload : JSON.stringify(payload));
  if (attachments.length > 0)
    parts.push(['Attached files:', ...attachments.map(({ path, size }) => `- ${path} (${size} bytes)`)].join('\n'));
  return parts.join('\n\n');
}

interface Completion {
  choices?: { message?: { content?: unknown } }[];
  error?: { message?: unknown };
}

function replyIn(answer: unknown): string {
  const { choices, error } = (answer ?? {}) as Completion;
  // Some servers report an error with status 200.
  if (error !== undefined && error !== null) throw new AgentErrorResponse(502, errorMessage(error.message));
  const content = Array.isArray(choices) ? choices[0]?.message?.content : undefined;
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(textOfPart).join('');
  throw new AgentErrorResponse(200, 'the answer has no choices[0].message.content');
}

function errorMessage(said: unknown): string {
  return typeof said === 'string' ? wellFormed(said.slice(0, 300)) : 'an error';
}

function textOfPart(part: unknown): string {
  const { text } = (part ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
