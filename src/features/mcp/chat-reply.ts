import type { IncomingMessage } from 'node:http';

import { EventStreamParser, type ReceivedEvent } from '../../agent-protocol/event-stream-parser.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** The longest event, in characters. The last one contains the whole reply, which may be this long. */
const EVENT_LENGTH_MAX = 8_388_608;

/** The state of a chat message: `accepted` once it is stored, then `reply` or `error`. */
export interface ChatTurn {
  event: 'accepted' | 'reply' | 'error';
  data: Readonly<Record<string, unknown>>;
}

/**
 * Returns the state of the message at the end of the response, or when the signal aborts. Throws `reply_timeout` if it is not stored by
 * then.
 */
export async function readChatTurn(response: IncomingMessage, signal: AbortSignal): Promise<ChatTurn> {
  let turn: ChatTurn | null = null;
  const leave = () => void response.destroy();
  const take = ({ event, data }: ReceivedEvent) => {
    if (event === 'accepted' || event === 'reply' || event === 'error') turn = { event, data: JSON.parse(data) as ChatTurn['data'] };
  };
  const parser = new EventStreamParser(EVENT_LENGTH_MAX, take, leave);
  signal.addEventListener('abort', leave, { once: true });
  if (signal.aborted) leave();
  try {
    for await (const chunk of response) parser.push(chunk as Buffer);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', leave);
  }
  if (turn === null) throw new ProblemError('reply_timeout', 'The message was not stored in time. It may have been stored since.');
  return turn;
}
