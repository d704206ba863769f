import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Progress } from '@modelcontextprotocol/sdk/types.js';

import { McpModule } from '../../src/features/mcp/mcp.module.ts';
import { ToolCalls } from '../../src/features/mcp/tool-calls.service.ts';
import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from './agent-fixture.ts';
import { FaultyRuntimeModule } from './faulty-runtime.ts';
import { startFeatureServer } from './feature-server.ts';
import { runningFeatures } from './features.ts';
import type { TestServer } from './http-server.ts';

type Given = Record<string, unknown>;

interface Content {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
}

export interface ToolResult {
  isError: boolean;
  /** The first text of the result, and the notes below it. */
  text: string;
  notes: string;
  /** The first text as JSON; null if it is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test's expectation is the check of its form
  json: any;
  content: Content[];
}

/** A server with an agent of the account acme that a tool created, and clients of its tools. */
export class ToolFixture {
  agentId = '';
  private readonly clients: Client[] = [];

  constructor(readonly server: TestServer) {}

  /** The timeouts of calls, which a test may shorten. */
  get times(): ToolCalls['times'] {
    return this.server.app.get(ToolCalls, { strict: false }).times;
  }

  /** Connects the SDK's own client with the credential. */
  async connected(credential = 'mk_acme'): Promise<Client> {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${credential}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${this.server.url}/api/mcp`), { requestInit }));
    this.clients.push(client);
    return client;
  }

  async call(name: string, given: Given = {}, credential = 'mk_acme', onprogress?: (progress: Progress) => void): Promise<ToolResult> {
    const client = await this.connected(credential);
    const { content, isError } = await client.callTool({ name, arguments: given }, undefined, onprogress && { onprogress });
    const parts = content as Content[];
    const text = parts[0]?.text ?? '';
    return { isError: isError === true, text, notes: parts[1]?.text ?? '', json: parsed(text), content: parts };
  }

  /** Sends a message, or several, unchanged. */
  post(json: unknown, headers: Record<string, string> = {}) {
    return this.server.request('POST', '/api/mcp', { json, credential: 'mk_acme', headers });
  }

  /** Sends messages on a connection that the signal closes. */
  send(json: unknown, signal: AbortSignal): Promise<string> {
    const headers = { authorization: 'Bearer mk_acme', 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const asked = fetch(`${this.server.url}/api/mcp`, { method: 'POST', headers, body: JSON.stringify(json), signal });
    return asked.then((response) => response.text());
  }

  async namesFor(credential: string): Promise<string[]> {
    return (await (await this.connected(credential)).listTools()).tools.map(({ name }) => name);
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()));
    await this.server.close();
  }
}

/** Returns the message that calls the tool. */
export function callOf(name: string, given: Given, more: object = {}) {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: given, ...more } };
}

export async function startTools(): Promise<ToolFixture> {
  const features = runningFeatures(FaultyRuntimeModule.forTest(() => undefined));
  const server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule, McpModule] });
  const bed = new ToolFixture(server);
  const agents = new AgentFixture(server);
  await agents.account('acme', 20);
  await agents.account('other', 20);
  bed.agentId = (await bed.call('create_agent', { templateId: 'hello', name: 'one' })).json.agent_id as string;
  return bed;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
