import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Asked {
  messages: { role: string; content: unknown }[];
  user?: string;
  stream?: boolean;
}

/** The words by which a test distinguishes its people's messages from everything else that a framework sends to its model. */
const WORD = /#[a-z0-9-]+/g;

/**
 * A model with the chat completions API, streamed or not, which ignores tools. It replies with the words beginning with # of all messages
 * of people that it got, in their order and each once: the reply shows which messages the agent remembers.
 */
export class ModelServer {
  /** The requests so far. */
  readonly asked: Asked[] = [];

  private constructor(
    private readonly server: Server,
    private readonly host: string,
  ) {}

  /** The host is the address that it listens on. */
  static async start(host = '127.0.0.1'): Promise<ModelServer> {
    const server = createServer((request, response) => void model.answer(request, response));
    const model = new ModelServer(server, host);
    server.listen(0, host);
    await once(server, 'listening');
    return model;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** The base URL for clients that reach the host. */
  get url(): string {
    return `http://${this.host}:${this.port}/v1`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.method !== 'POST' || request.url !== '/v1/chat/completions') return void response.writeHead(404).end();
    const asked = JSON.parse(Buffer.concat(chunks).toString()) as Asked;
    this.asked.push(asked);
    const base = { id: `completion-${this.asked.length}`, created: 1, model: 'test' };
    const text = replyTo(asked);
    if (asked.stream !== true) {
      const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: text } }];
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
      response.setHeader('content-type', 'application/json');
      return void response.end(JSON.stringify({ ...base, object: 'chat.completion', choices, usage }));
    }
    response.setHeader('content-type', 'text/event-stream');
    const send = (delta: object, reason: string | null) => {
      const choices = [{ index: 0, delta, finish_reason: reason }];
      response.write(`data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices })}\n\n`);
    };
    for (const piece of text.split(/(?<= )/)) send({ role: 'assistant', content: piece }, null);
    send({}, 'stop');
    response.end('data: [DONE]\n\n');
  }
}

function replyTo({ messages }: Asked): string {
  const said = messages.filter(({ role }) => role === 'user').flatMap(({ content }) => JSON.stringify(content).match(WORD) ?? []);
  return `I remember ${[...new Set(said)].join(' ')}`;
}
