import { createHash, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';

import { fastify, type FastifyRequest } from 'fastify';
import pg from 'pg';

import { eachCommitted, groupCommitted } from './group-commit.ts';

/**
 * The limit of a relay of messages: it knows the caller by a key, stores the message, delivers it, stores the reply, and answers. With
 * `BENCH_GROUP_COMMIT` commits are grouped and keys remembered, as a well-built relay does it. It encrypts, orders and bounds nothing.
 */
const KEY_REMEMBERED_MS = 10_000;
const isGrouped = process.env.BENCH_GROUP_COMMIT === 'on';
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 16 });
const connections = new Agent({ keepAlive: true });
const insert = isGrouped ? groupCommitted(pool) : eachCommitted(pool);
const remembered = new Map<string, { address: Promise<string | null>; until: number }>();

async function addressOf(authorization: string, agentId: string): Promise<string | null> {
  const text = 'select a.address from keys k join agents a using (account_id) where k.sha256 = $1 and a.agent_id = $2';
  const sha256 = createHash('sha256').update(authorization).digest('hex');
  const { rows } = await pool.query<{ address: string }>({ name: 'address', text, values: [sha256, agentId] });
  return rows[0]?.address ?? null;
}

function knownAddressOf(authorization: string, agentId: string): Promise<string | null> {
  if (!isGrouped) return addressOf(authorization, agentId);
  const name = `${authorization} ${agentId}`;
  const known = remembered.get(name);
  if (known !== undefined && performance.now() < known.until) return known.address;
  const address = addressOf(authorization, agentId);
  remembered.set(name, { address, until: performance.now() + KEY_REMEMBERED_MS });
  return address;
}

function deliver(host: string, message: object): Promise<string> {
  const body = JSON.stringify(message);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const asked = request({ host, port: 8080, path: '/messages', method: 'POST', agent: connections, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (piece: string) => (text += piece));
      answer.on('end', () => resolve((JSON.parse(text) as { response: string }).response));
      answer.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

const text = { type: 'string' };
const schema = {
  body: { type: 'object', required: ['message', 'conversation_id'], properties: { message: text, conversation_id: text } },
  response: { 200: { type: 'object', properties: { message_id: text, conversation_id: text, response: text } } },
};
type Chat = { Params: { agentId: string }; Body: { message: string; conversation_id: string } };
const app = fastify();
app.post<Chat>('/api/agents/:agentId/chat', { schema }, async (asked: FastifyRequest<Chat>, answer) => {
  const { agentId } = asked.params;
  const { message, conversation_id } = asked.body;
  const address = await knownAddressOf(asked.headers.authorization ?? '', agentId);
  if (address === null) return answer.status(404).send();
  const id = randomUUID();
  await insert([id, conversation_id, agentId, 'user', message]);
  const response = await deliver(address, { id, conversation_id, channel: 'chat', text: message });
  await insert([randomUUID(), conversation_id, agentId, 'agent', response]);
  return { message_id: id, conversation_id, response };
});
console.info(`listens on ${await app.listen({ port: 0, host: '127.0.0.1' })}`);
