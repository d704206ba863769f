import { interfaceIn, type A2aInterface, type A2aVersion } from './a2a-card.ts';
import { A2aTurn } from './a2a-turn.ts';
import { callForEvents, callForJson, type AgentCall } from '../agent-exchange.ts';
import {
  AgentErrorResponse,
  AgentProtocol,
  inRequest,
  type AgentReply,
  type Deliver,
  type Delivery,
  type Exchange,
  OPEN_TASK,
  type PrepareRequest,
} from '../protocol.ts';
import type { ReceivedEvent } from '../event-stream-parser.ts';
import { messageText } from '../message-text.ts';
import { poll } from '../poll.ts';
import { parsedEvent, ReplyText, shortened } from '../reply-text.ts';
import { requestName } from '../request-name.ts';

const CARD_PATH = '/.well-known/agent-card.json';

/** The names that differ between the versions. */
const methodNames = {
  '1.0': { send: 'SendMessage', stream: 'SendStreamingMessage', get: 'GetTask', role: 'ROLE_USER' },
  '0.3': { send: 'message/send', stream: 'message/stream', get: 'tasks/get', role: 'user' },
} satisfies Record<A2aVersion, object>;

/** The JSON-RPC errors for an invalid or unsupported request. All other errors may be temporary. */
const REFUSALS = new Set([-32_700, -32_600, -32_601, -32_602, -32_001, -32_002, -32_003, -32_004, -32_005, -32_006, -32_007, -32_009]);

/** The number of messages that are requested with a task: enough to include the last message that the task answers. */
const HISTORY_LENGTH = 10;

/**
 * The A2A protocol over JSON-RPC, versions 1.0 and 0.3. The agent keeps the conversation as a context. Its card is read before each
 * message, because a redeployed agent may have another one. A repeated message has the same `messageId`, by which the agent can drop it.
 * The latest task of the context is requested first: a task that already answers the message is awaited, and one that needs input gets the
 * message. Version 0.3 can't be asked for the tasks of a context, so the reply names the task that needs input, for the next message.
 */
export class A2aProtocol extends AgentProtocol {
  async prepare({ endpoint, timeoutMs, signal, memory, protocol, publicPath, ...ids }: PrepareRequest): Promise<Deliver> {
    const exchange = { endpoint, timeoutMs, signal, memory };
    const headers = { 'a2a-version': '1.0' };
    const card = { ...exchange, path: protocol.path ?? CARD_PATH, headers };
    const agent = await callForJson(card, (answer) => interfaceIn(answer, publicPath));
    const latest = await (agent.version === '1.0' ? latestTask : openTask)(exchange, agent, ids);
    if (latest === null) return deliverTo(agent, null);
    const turn = new A2aTurn(new ReplyText());
    turn.applyTask(latest);
    const isAnswered = turn.lastMessage === ids.messageId && !turn.hasFailed;
    if (!isAnswered) return deliverTo(agent, turn.needsInput ? turn.task : null);
    return () => inRequest(requestName('POST', agent.path), () => replyOf(exchange, agent, turn));
  }
}

/** Returns the function that delivers a message. It is separate, so that it keeps nothing of the inspected task in memory. */
function deliverTo(agent: A2aInterface, taskId: string | null): Deliver {
  return (delivery) => deliver(delivery, agent, taskId);
}

type Ids = Pick<PrepareRequest, 'messageId' | 'conversationId' | 'openTask'>;

/**
 * Returns the context's latest task; null if there is none, or the agent answers with an error: those that do not support the request answer
 * with errors of every kind, so none tells that it may pass.
 */
function latestTask(exchange: Exchange, agent: A2aInterface, { conversationId: contextId }: Ids): Promise<object | null> {
  const query = { contextId, pageSize: 1, historyLength: HISTORY_LENGTH, includeArtifacts: true, ...tenantParams(agent) };
  const ask = async () => {
    const { tasks } = ((await callForJson(rpc(exchange, agent, 'ListTasks', contextId, query), resultOf)) ?? {}) as { tasks?: unknown };
    const [latest] = (Array.isArray(tasks) ? tasks : []) as ({ contextId?: unknown } | null)[];
    return latest?.contextId === contextId ? latest : null;
  };
  return nullIf(() => true, ask);
}

/**
 * Returns the task that the last reply named; null if it named none, or the agent has lost it. Throws an error that may be temporary: the
 * agent has this task, and a message that did not name it would leave it waiting for ever.
 */
function openTask(exchange: Exchange, agent: A2aInterface, { openTask: id }: Ids): Promise<object | null> {
  if (id === undefined) return Promise.resolve(null);
  const query = { id, historyLength: HISTORY_LENGTH };
  const ask = async () => {
    const task = await callForJson(rpc(exchange, agent, methodNames[agent.version].get, id, query), resultOf);
    return typeof task === 'object' ? task : null;
  };
  return nullIf(({ retryable }) => !retryable, ask);
}

/** Returns the result; null if the agent answers with such an error. */
async function nullIf<Result>(isNone: (error: AgentErrorResponse) => boolean, ask: () => Promise<Result | null>): Promise<Result | null> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof AgentErrorResponse && isNone(error)) return null;
    throw error;
  }
}

function deliver(delivery: Delivery, agent: A2aInterface, taskId: string | null): Promise<AgentReply> {
  const { message, onText, endpoint, timeoutMs, signal, memory } = delivery;
  const { send, stream, role } = methodNames[agent.version];
  const isStreamed = onText !== undefined && agent.streams;
  const text = messageText(message);
  const members = { messageId: message.id, contextId: message.conversationId, role, ...(taskId === null ? {} : { taskId }) };
  const params =
    agent.version === '1.0'
      ? { message: { ...members, parts: [{ text }] }, ...tenantParams(agent) }
      : { message: { ...members, kind: 'message', parts: [{ kind: 'text', text }] }, configuration: { blocking: true } };
  const exchange = { endpoint, timeoutMs, signal, memory };
  const turn = new A2aTurn(new ReplyText(onText));
  const call = rpc(exchange, agent, isStreamed ? stream : send, message.id, params);
  const begun = performance.now();
  const onEvent = ({ data }: ReceivedEvent) => {
    turn.apply(resultOf(parsedEvent(data)));
    return turn.isOver;
  };
  return callForEvents(call, onEvent, (answer) => {
    if (answer !== undefined) turn.apply(resultOf(answer));
    return replyOf({ ...exchange, timeoutMs: timeoutMs - (performance.now() - begun) }, agent, turn);
  });
}

/** Returns the reply of the turn. It polls the turn's task until that has a reply or has failed. */
async function replyOf(exchange: Exchange, agent: A2aInterface, turn: A2aTurn): Promise<AgentReply> {
  if (!turn.isOver) await untilOver(exchange, agent, turn);
  const { task } = turn;
  const isKept = agent.version === '0.3' && turn.needsInput && task !== null && OPEN_TASK.test(task);
  return { response: turn.reply(), ...(isKept ? { openTask: task } : {}) };
}

function untilOver(exchange: Exchange, agent: A2aInterface, turn: A2aTurn): Promise<true> {
  const { task: id } = turn;
  if (id === null) throw new AgentErrorResponse(200, 'its task has no id');
  return poll(exchange, async (timeoutMs) => {
    const call = rpc({ ...exchange, timeoutMs }, agent, methodNames[agent.version].get, id, { id, ...tenantParams(agent) });
    await callForJson(call, (answer) => {
      const task = resultOf(answer);
      if (typeof task !== 'object' || task === null) throw new AgentErrorResponse(200, 'the answer is no task');
      turn.applyTask(task);
    });
    return turn.isOver || null;
  });
}

function tenantParams({ tenant }: A2aInterface): object {
  return tenant === null ? {} : { tenant };
}

function rpc(exchange: Exchange, { path, version }: A2aInterface, method: string, id: string, params: object): AgentCall {
  return { ...exchange, path, headers: { 'a2a-version': version }, body: JSON.stringify({ jsonrpc: '2.0', id, method, params }) };
}

/** Returns the result in a response. Throws `AgentErrorResponse` for an error. */
function resultOf(response: unknown): unknown {
  const { result, error } = (response ?? {}) as { result?: unknown; error?: { code?: unknown; message?: unknown } | null };
  if (error === undefined || error === null) return result;
  const said = typeof error.message === 'string' ? shortened(error.message) : 'an error';
  throw new AgentErrorResponse(REFUSALS.has(Number(error.code)) ? 400 : 502, `error ${Number(error.code)}: ${said}`);
}
