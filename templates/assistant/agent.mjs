// This agent talks to a model behind an endpoint that implements OpenAI's chat completions.
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';

const MAX_BODY = 4 * 1024 * 1024;
const MAX_REPLY = 1024 * 1024;
const MAX_THREADS = 1_000;
/** The number of answers that are kept for repeated messages of a conversation. */
const REMEMBERED = 50;

const { env } = process;
const port = Number(env.PORT ?? '8080');
const threads = join(env.MOORING_VOLUME ?? '.', 'threads');
const model = env.OPENAI_MODEL || 'gpt-4o-mini';
const endpoint = `${(env.OPENAI_BASE_URL || 'https://api.openai.com/v1').replace(/\/+$/, '')}/chat/completions`;
const isSetUp = Boolean(env.OPENAI_API_KEY || env.OPENAI_BASE_URL);
const maxHistory = number(env.MAX_HISTORY, 40, 2, 400);
const timeoutMs = number(env.OPENAI_TIMEOUT, 110, 1, 3_600) * 1_000;

const explanation =
  'I am not connected to a model yet. Set the variable OPENAI_API_KEY (as a secret), or OPENAI_BASE_URL for an endpoint of your own ' +
  'that speaks OpenAI’s chat completions, perhaps also OPENAI_MODEL and SYSTEM_PROMPT, and restart me.';

const log = (level, message, facts = {}) => console.log(JSON.stringify({ level, message, ...facts }));

function number(text, fallback, min, max) {
  const value = Number(text || fallback);
  return Number.isFinite(value) ? Math.min(max, Math.max(min, Math.floor(value))) : fallback;
}

/** An error that the caller may read: no stack, no key. */
class Failure extends Error {
  constructor(status, message) {
    super(env.OPENAI_API_KEY ? message.replaceAll(env.OPENAI_API_KEY, '•••') : message);
    this.status = status;
  }
}

/** Returns the file of a conversation. Ids come from outside, so they are hashed and never used as a path. */
const threadFile = (id) => join(threads, `${createHash('sha256').update(id).digest('hex')}.json`);

async function readThread(file) {
  try {
    const { messages, answers } = JSON.parse(await readFile(file, 'utf8'));
    return { messages: Array.isArray(messages) ? messages : [], answers: Array.isArray(answers) ? answers : [] };
  } catch (error) {
    if (error.code === 'ENOENT') await forgetOldest();
    else log('warning', 'a conversation could not be read and begins anew', { error: error.message });
    return { messages: [], answers: [] };
  }
}

/** Writes the thread so that a crash leaves the old one or the new one, never a part. */
async function writeThread(file, thread) {
  const temporary = `${file}.tmp`;
  const opened = await open(temporary, 'w');
  try {
    await opened.writeFile(JSON.stringify(thread));
    await opened.sync();
  } finally {
    await opened.close();
  }
  await rename(temporary, file);
}

async function forgetOldest() {
  const names = (await readdir(threads)).filter((name) => name.endsWith('.json'));
  if (names.length < MAX_THREADS) return;
  const dated = await Promise.all(names.map(async (name) => ({ name, time: (await stat(join(threads, name))).mtimeMs })));
  dated.sort((a, b) => a.time - b.time);
  for (const { name } of dated.slice(0, names.length - MAX_THREADS + 1)) await rm(join(threads, name), { force: true });
}

async function textWithin(response, limit) {
  const chunks = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > limit) throw new Failure(502, 'the model endpoint’s answer is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Returns the endpoint's error text in one line of at most 200 characters. */
function errorIn(text) {
  try {
    const { error } = JSON.parse(text);
    const said = typeof error === 'string' ? error : error?.message;
    if (typeof said === 'string') return said.replace(/\s+/g, ' ').slice(0, 200);
  } catch {
    // A response that is not JSON is not repeated.
  }
  return 'no further text';
}

async function ask(messages) {
  const headers = { 'content-type': 'application/json' };
  if (env.OPENAI_API_KEY) headers.authorization = `Bearer ${env.OPENAI_API_KEY}`;
  let response;
  let text;
  try {
    // A redirect would send the key to another place.
    const options = { method: 'POST', headers, redirect: 'error', signal: AbortSignal.timeout(timeoutMs) };
    response = await fetch(endpoint, { ...options, body: JSON.stringify({ model, messages, stream: false }) });
    text = await textWithin(response, MAX_REPLY);
  } catch (error) {
    if (error instanceof Failure) throw error;
    if (error.name === 'TimeoutError') throw new Failure(502, `the model endpoint did not answer within ${timeoutMs / 1_000} s`);
    throw new Failure(502, `the model endpoint could not be reached (${error.cause?.code ?? error.cause?.message ?? error.name})`);
  }
  if (!response.ok) throw new Failure(502, `the model endpoint answered ${response.status}: ${errorIn(text)}`);
  return contentOf(text);
}

function contentOf(text) {
  let content;
  try {
    content = JSON.parse(text).choices[0].message.content;
  } catch {
    // The failure is thrown below.
  }
  if (typeof content !== 'string') throw new Failure(502, `the model endpoint gave no reply: ${errorIn(text)}`);
  return content;
}

/** Returns the whole message as text for the model. */
function promptOf({ text, payload, attachments }) {
  const parts = [];
  if (typeof text === 'string' && text !== '') parts.push(text);
  if (payload !== null && payload !== undefined) parts.push(typeof payload === 'string' ? payload : JSON.stringify(payload));
  if (Array.isArray(attachments) && attachments.length > 0)
    parts.push(['Attached files:', ...attachments.map(({ path, size }) => `- ${path} (${size} bytes)`)].join('\n'));
  return parts.join('\n\n') || '(an empty message)';
}

// Messages of a conversation are handled one after the other, so that each sees the answer to the previous one.
const underWay = new Map();
function reply(message) {
  const before = underWay.get(message.conversation_id) ?? Promise.resolve();
  const mine = before.then(() => replyOnce(message));
  const settled = mine
    .catch(() => undefined)
    .then(() => {
      if (underWay.get(message.conversation_id) === settled) underWay.delete(message.conversation_id);
    });
  underWay.set(message.conversation_id, settled);
  return mine;
}

async function replyOnce(message) {
  if (!isSetUp) return explanation;
  const file = threadFile(message.conversation_id);
  const thread = await readThread(file);
  // A repeated message is answered as it was the first time.
  const known = thread.answers.find(([id]) => id === message.id);
  if (known !== undefined) return known[1];
  const asked = [...thread.messages, { role: 'user', content: promptOf(message) }].slice(-maxHistory);
  const system = env.SYSTEM_PROMPT ? [{ role: 'system', content: env.SYSTEM_PROMPT }] : [];
  const content = await ask([...system, ...asked]);
  const messages = [...asked, { role: 'assistant', content }].slice(-maxHistory);
  await writeThread(file, { messages, answers: [...thread.answers, [message.id, content]].slice(-REMEMBERED) });
  return content;
}

async function messageIn(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    // A body that is too large is still read to its end, so that the client receives the response.
    if (size <= MAX_BODY) chunks.push(chunk);
  }
  if (size > MAX_BODY) throw new Failure(413, 'the message is too large');
  try {
    const message = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    if (typeof message?.id === 'string' && typeof message.conversation_id === 'string') return message;
  } catch {
    // The failure is thrown below.
  }
  throw new Failure(400, 'a message is a JSON object with an id and a conversation_id');
}

async function handle(request) {
  if (request.method === 'GET' && request.url === '/healthz') return [200, { status: 'ok' }];
  if (request.url !== '/messages') return [404, { error: 'there is only POST /messages and GET /healthz' }];
  if (request.method !== 'POST') return [405, { error: 'POST a message' }];
  const message = await messageIn(request);
  const facts = { message_id: message.id, channel: message.channel, conversation_id: message.conversation_id };
  try {
    const response = await reply(message);
    log('info', 'answered a message', facts);
    return [200, { response }];
  } catch (error) {
    log('error', 'a message could not be answered', {
      ...facts,
      error: error instanceof Failure ? error.message : (error.code ?? error.name),
    });
    throw error;
  }
}

const server = createServer((request, response) => {
  void handle(request)
    .catch((error) => (error instanceof Failure ? [error.status, { error: error.message }] : [500, { error: 'the agent failed' }]))
    .then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
});

await mkdir(threads, { recursive: true });
server.listen(port, env.HOST ?? '0.0.0.0', () =>
  log('info', isSetUp ? 'ready' : 'ready, but not connected to a model', { port: server.address().port }),
);
process.on('SIGTERM', () => {
  log('info', 'stopping');
  process.exit(0);
});
