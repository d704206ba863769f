import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const usage = { input_tokens: 1, output_tokens: 1 };
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'tool_use', stop_sequence: null, usage };
const call = { type: 'computer_call', id: 'cu_1', call_id: 'call_1', status: 'completed', pending_safety_checks: [] };

/** A server that responds as the vendors' models would, called with their own SDKs. */
export class VendorModels {
  private nextAnswer: object = {};
  private readonly server: Server;

  private constructor(server: Server) {
    this.server = server;
    server.on('request', (request, response) => {
      request.resume();
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(this.nextAnswer));
    });
  }

  static async start(): Promise<VendorModels> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new VendorModels(server);
  }

  /** Returns the tool uses in the response of Anthropic's model, as its SDK returns them. */
  async anthropicUses(content: object[]): Promise<Anthropic.Beta.BetaToolUseBlock[]> {
    this.nextAnswer = { ...message, content: content.map((block, index) => ({ type: 'tool_use', id: `toolu_${index}`, ...block })) };
    const client = new Anthropic({ apiKey: 'none', baseURL: this.url });
    const answer = await client.beta.messages.create({
      model: 'claude',
      max_tokens: 1_000,
      messages: [{ role: 'user', content: 'Open the terminal.' }],
      tools: [{ type: 'computer_20251124', name: 'computer', display_width_px: 640, display_height_px: 480 }],
    });
    return answer.content.filter((block) => block.type === 'tool_use');
  }

  /** Returns the computer call in the response of OpenAI's model, as its SDK returns it. */
  async openaiCall(more: object): Promise<OpenAI.Responses.ResponseComputerToolCall> {
    this.nextAnswer = { id: 'resp_1', object: 'response', status: 'completed', model: 'gpt', output: [{ ...call, ...more }] };
    const client = new OpenAI({ apiKey: 'none', baseURL: this.url });
    const answer = await client.responses.create({ model: 'gpt', input: 'Open the terminal.', tools: [{ type: 'computer' }] });
    const found = answer.output.find((item) => item.type === 'computer_call');
    if (found === undefined) throw new Error('there is no call');
    return found;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }
}
