import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { CallToolRequestSchema, ErrorCode, ListToolsRequestSchema, McpError } from '@modelcontextprotocol/sdk/types.js';

import { version } from '../../kernel/version.ts';
import type { ToolListing } from './tool-catalogue.service.ts';
import type { Arguments } from './tool-request.ts';
import type { ToolResult } from './tool-results.ts';
import { WAIT_SECONDS } from './tool.ts';

/** The interval of progress notifications to a caller who requests them, in ms. */
const PROGRESS_MS = 5_000;

const INSTRUCTIONS =
  `Mooring runs AI agents in containers, and computers, which are desktops for end users. Tools wait ${WAIT_SECONDS} s at most for what they ask for, and then say which tool shows how it goes on. ` +
  'A refusal is a JSON object with a code and a detail that says what to do.';

/** The service sends no requests to clients, so no responses of clients need validation. */
const noValidation = {
  getValidator: (): never => {
    throw new Error('answers of clients are not validated');
  },
};

/** The tools that one request may use. */
export interface SessionTools {
  list(): ToolListing[];
  /** Returns null if there is no such tool. */
  call(name: string, given: Arguments, signal: AbortSignal): Promise<ToolResult> | null;
}

export interface McpRequest {
  /** The body of the request: one message, or several. */
  message: unknown;
  /** The version of the protocol, as the header of the request has it. */
  protocolVersion: string | undefined;
  /** The value is true if the response is an event stream, which can contain progress notifications. */
  isStream: boolean;
}

/** Handles one request with a server of its own, which ends when the signal aborts. */
export async function handleRequest(
  { message, protocolVersion, isStream }: McpRequest,
  tools: SessionTools,
  signal: AbortSignal,
): Promise<Response> {
  const server = createServer(tools);
  const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: !isStream });
  await server.connect(transport);
  signal.addEventListener('abort', () => void server.close(), { once: true });
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...(protocolVersion === undefined ? {} : { 'mcp-protocol-version': protocolVersion }),
  };
  // An empty body is passed on as null, because with undefined the transport would read the request's body itself.
  return transport.handleRequest(new Request('http://localhost/', { method: 'POST', headers }), { parsedBody: message ?? null });
}

function createServer(tools: SessionTools): Server {
  const information = { name: 'mooring', title: 'Mooring', version };
  const options = { capabilities: { tools: {} }, instructions: INSTRUCTIONS, jsonSchemaValidator: noValidation };
  const server = new Server(information, options);
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.list() }));
  server.setRequestHandler(
    CallToolRequestSchema,
    async ({ params: { name, arguments: given = {}, _meta } }, { signal, sendNotification }) => {
      const running = tools.call(name, given, signal);
      if (running === null) throw new McpError(ErrorCode.InvalidParams, 'There is no such tool.');
      const progressToken = _meta?.progressToken;
      if (progressToken === undefined) return { ...(await running) };
      let progress = 0;
      const timer = setInterval(() => {
        progress += PROGRESS_MS / 1_000;
        const params = { progressToken, progress, message: `${name} goes on.` };
        sendNotification({ method: 'notifications/progress', params }).catch(() => undefined);
      }, PROGRESS_MS);
      return { ...(await running.finally(() => clearInterval(timer))) };
    },
  );
  return server;
}
