// This is a small agent: a web server that answers POST /messages. docs/guides/bring-your-own-agent.md says what an agent does and gets.
import { open, readFile, rename } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';

const MAX_BODY = 4 * 1024 * 1024;
const REMEMBERED = 200;

const { PORT = '8080', HOST = '0.0.0.0', MOORING_VOLUME = '.', MOORING_AGENT_NAME = 'an agent', GREETING = 'Hello' } = process.env;
const counterFile = join(MOORING_VOLUME, 'counter.json');

const log = (level, message, facts = {}) => console.log(JSON.stringify({ level, message, ...facts }));

/** Returns { count, answers: [[message id, answer], …] }, oldest first. */
async function readCounter() {
  try {
    const { count, answers } = JSON.parse(await readFile(counterFile, 'utf8'));
    return { count: Number(count) || 0, answers: Array.isArray(answers) ? answers : [] };
  } catch (error) {
    if (error.code !== 'ENOENT') log('warning', 'the counter could not be read and begins anew', { error: error.message });
    return { count: 0, answers: [] };
  }
}

/** Writes the counter so that a crash leaves the old one or the new one, never a part. */
async function writeCounter(counter) {
  const temporary = `${counterFile}.tmp`;
  const file = await open(temporary, 'w');
  try {
    await file.writeFile(JSON.stringify(counter));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, counterFile);
}

function answerTo({ channel, text }, count) {
  const times = count === 1 ? 'once' : `${count} times`;
  const about = {
    webhook: 'A webhook called.',
    attachment: 'Thank you for the file.',
    chat: `You wrote: ${String(text ?? '').slice(0, 500)}`,
  };
  return `${GREETING}! I am ${MOORING_AGENT_NAME}. ${about[channel] ?? about.chat} I have been asked ${times}.`;
}

// Messages are handled one after the other, so that two concurrent ones are counted as two.
let last = Promise.resolve();
function reply(message) {
  const mine = last.then(() => replyOnce(message));
  last = mine.catch(() => undefined);
  return mine;
}

/** Answers a message. A repeated one (the service repeats a message whose response was lost) gets the same answer and is not counted. */
async function replyOnce(message) {
  const counter = await readCounter();
  const known = counter.answers.find(([id]) => id === message.id);
  if (known !== undefined) return known[1];
  const count = counter.count + 1;
  const response = answerTo(message, count);
  await writeCounter({ count, answers: [...counter.answers, [message.id, response]].slice(-REMEMBERED) });
  return response;
}

async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    // A body that is too large is still read to its end, so that the client receives the response.
    if (size <= MAX_BODY) chunks.push(chunk);
  }
  if (size > MAX_BODY) throw Object.assign(new Error('the message is too large'), { status: 413 });
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(body) {
  try {
    const message = JSON.parse(body);
    if (typeof message?.id === 'string') return message;
  } catch {
    // The error below answers it.
  }
  throw Object.assign(new Error('a message is a JSON object with an id'), { status: 400 });
}

async function handle(request) {
  if (request.method === 'GET' && request.url === '/healthz') return [200, { status: 'ok' }];
  if (request.url !== '/messages') return [404, { error: 'there is only POST /messages and GET /healthz' }];
  if (request.method !== 'POST') return [405, { error: 'POST a message' }];
  const message = parsed(await bodyOf(request));
  const response = await reply(message);
  log('info', 'answered a message', { message_id: message.id, channel: message.channel, conversation_id: message.conversation_id });
  return [200, { response }];
}

const server = createServer((request, response) => {
  void handle(request)
    .catch((error) => {
      if (error.status === undefined) log('error', 'a message could not be answered', { error: error.message });
      return [error.status ?? 500, { error: error.status === undefined ? 'the agent failed' : error.message }];
    })
    .then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
});

server.listen(Number(PORT), HOST, () => log('info', 'ready', { port: server.address().port }));
process.on('SIGTERM', () => {
  log('info', 'stopping');
  process.exit(0);
});
