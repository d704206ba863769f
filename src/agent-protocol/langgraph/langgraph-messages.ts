/** The members of a message in the state of a graph that are read. */
interface GraphMessage {
  id?: unknown;
  type?: unknown;
  role?: unknown;
  content?: unknown;
}

/**
 * Returns the text of the agent's last non-empty message, after the message with this id if that is in the list. Returns an empty text if
 * all of the agent's messages are empty, and null if there are none.
 */
export function lastReply(messages: unknown, afterId?: string): string | null {
  const all: unknown[] = Array.isArray(messages) && !isPair(messages) ? messages : [messages];
  const asked = all.findIndex((message) => afterId !== undefined && (message as GraphMessage | null)?.id === afterId);
  const texts = all.slice(asked + 1).flatMap((message) => agentText(message) ?? []);
  return texts.findLast((text) => text !== '') ?? texts.at(-1) ?? null;
}

/** Returns the text of a complete or partial message of the agent; null for any other message. */
export function agentText(message: unknown): string | null {
  if (isPair(message)) return isOfAgent(message[0]) ? textOf(message[1]) : null;
  const { type, role, content } = (message ?? {}) as GraphMessage;
  return isOfAgent(type) || isOfAgent(role) ? textOf(content) : null;
}

/**
 * Returns the questions at which a run was interrupted, as text; null if there are none. It accepts a list of questions, and lists by task.
 */
export function interruptText(interrupts: unknown): string | null {
  if (typeof interrupts !== 'object' || interrupts === null) return null;
  const questions = Object.values(interrupts).flat(1) as unknown[];
  if (questions.length === 0) return null;
  return questions.map((question) => textOfQuestion((question as { value?: unknown } | null)?.value)).join('\n\n');
}

/** A message may be a pair of its role and its content. */
function isPair(message: unknown): message is [string, unknown] {
  return Array.isArray(message) && message.length === 2 && typeof message[0] === 'string';
}

function isOfAgent(kind: unknown): boolean {
  return kind === 'ai' || kind === 'assistant' || kind === 'AIMessageChunk';
}

/** Returns the text of a content, which is a string or a list of blocks. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map(textOfBlock).join('') : '';
}

function textOfBlock(block: unknown): string {
  if (typeof block === 'string') return block;
  const { text } = (block ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}

function textOfQuestion(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}
