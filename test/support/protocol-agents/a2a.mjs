// An A2A server, as its own process: node a2a.mjs <version, 1.0 or 0.3>. It prints its port.
import { createServer } from 'node:http';

import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server';
import {
  AgentEvent,
  DefaultRequestHandler,
  defaultServerCallContextBuilder,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  UnauthenticatedUser,
  validateVersion,
} from '@a2a-js/sdk/server';

import { noteTurn, untilReleased } from './volume.mjs';

const version = process.argv[2];
// The address does not lead to the agent, so that a client which used it would fail.
const url = 'http://192.0.2.1:1/rpc?tenant=a';
const states = { submitted: 1, working: 2, completed: 3, failed: 4, inputRequired: 6 };
const agentRole = 2;

const partOf = (text) => ({ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' });
const textOf = ({ parts }) => parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('');

/** The tasks whose next request fails for once. */
const failing = new Set();

/** The texts and ids of the messages by context. */
const contexts = new Map();

/** Returns the event that a task for the message has begun. */
const submitted = (id, contextId, message) =>
  AgentEvent.task({
    id,
    contextId,
    status: { state: states.submitted, message: undefined, timestamp: new Date().toISOString() },
    artifacts: [],
    history: [message],
    metadata: undefined,
  });

class Executor {
  async execute({ userMessage, taskId, contextId, task }, bus) {
    const heard = [...(contexts.get(contextId) ?? []), userMessage];
    contexts.set(contextId, heard);
    const text = textOf(userMessage);
    noteTurn(contextId, text);
    const says = (said) => ({
      messageId: `${taskId}-${said.length}`,
      contextId,
      taskId: '',
      role: agentRole,
      parts: [partOf(said)],
      extensions: [],
      referenceTaskIds: [],
    });
    const status = (state, said) =>
      bus.publish(
        AgentEvent.statusUpdate({
          taskId,
          contextId,
          status: { state: states[state], message: said === undefined ? undefined : says(said), timestamp: new Date().toISOString() },
          metadata: undefined,
        }),
      );
    const artifact = (id, said, append) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          artifact: { artifactId: id, name: '', description: '', parts: [partOf(said)], metadata: undefined, extensions: [] },
          append,
          lastChunk: false,
          metadata: undefined,
        }),
      );
    const begin = () => bus.publish(submitted(taskId, contextId, userMessage));
    if (task !== undefined) {
      status('completed', `you said ${text}`);
    } else if (text === 'work') {
      begin();
      status('working', 'I am at it');
      artifact('a', 'one ', false);
      artifact('a', 'two', true);
      artifact('b', 'three', false);
      status('completed');
    } else if (text.startsWith('wait')) {
      begin();
      await untilReleased();
      artifact('a', `waited for ${heard.map(textOf).join(', ')}`, false);
      status('completed');
    } else if (text === 'ask') {
      begin();
      status('inputRequired', 'which one?');
    } else if (text === 'ask and fail') {
      begin();
      status('inputRequired', 'which one?');
      failing.add(taskId);
    } else if (text === 'fail') {
      begin();
      status('failed', 'it can not be done');
    } else {
      bus.publish(
        AgentEvent.message(
          says(`${heard.length}: ${heard.map(textOf).join(', ')} (${new Set(heard.map(({ messageId }) => messageId)).size} ids)`),
        ),
      );
    }
    bus.finished();
  }

  async cancelTask() {}
}

const capabilities = { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false };
const common = {
  name: 'test',
  description: 'An agent of the tests.',
  version: '1',
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
};
const card = {
  ...common,
  supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: version, tenant: '' }],
  provider: undefined,
  capabilities,
  securitySchemes: {},
  securityRequirements: [],
  signatures: [],
};
const cardOf03 = { ...common, url, preferredTransport: 'JSONRPC', protocolVersion: '0.3.0', capabilities: { streaming: true } };

const requests = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor());
const transport = version === '0.3' ? new LegacyJsonRpcTransportHandler(requests) : new JsonRpcTransportHandler(requests);

async function answer(request, response) {
  if (request.url === '/.well-known/agent-card.json')
    return response.setHeader('content-type', 'application/json').end(JSON.stringify(version === '0.3' ? cardOf03 : card));
  if (request.method !== 'POST' || request.url !== '/rpc?tenant=a') return response.writeHead(404).end();
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const requestedVersion = request.headers['a2a-version'] ?? '0.3';
  const body = JSON.parse(Buffer.concat(chunks).toString());
  if (failing.delete(body.params?.id)) return response.writeHead(503).end('{}');
  const context = defaultServerCallContextBuilder({
    extensions: undefined,
    user: new UnauthenticatedUser(),
    headers: request.headers,
    requestedVersion,
  });
  validateVersion(requestedVersion, card, 'JSONRPC');
  const result = await transport.handle(body, context);
  if (typeof result[Symbol.asyncIterator] !== 'function')
    return response.setHeader('content-type', 'application/json').end(JSON.stringify(result));
  response.setHeader('content-type', 'text/event-stream');
  for await (const event of result) response.write(`data: ${JSON.stringify(event)}\n\n`);
  return response.end();
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => response.writeHead(500).end(String(error)));
});
const { PORT = '0', HOST = '127.0.0.1' } = process.env;
server.listen(Number(PORT), HOST, () => console.log(`port ${server.address().port}`));
