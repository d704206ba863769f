// The web server of the agent. Begin with `reply` in agent.js; what it imports goes into package.json.
import { createServer } from 'node:http';
import { reply } from './agent.js';

const BODY_BYTES_MAX = 4 * 1024 * 1024;
const { PORT = '8080', HOST = '0.0.0.0' } = process.env;

async function messageOf(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    // A body that is too large is still read to its end, so that the client receives the response.
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk);
  }
  if (bytes > BODY_BYTES_MAX) throw Object.assign(new Error('the message is too large'), { status: 413 });
  try {
    const message = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    if (typeof message?.id === 'string') return message;
  } catch {
    // The error below answers it.
  }
  throw Object.assign(new Error('a message is a JSON object with an id'), { status: 400 });
}

async function answer(request) {
  if (request.method === 'GET' && request.url === '/healthz') return [200, { status: 'ok' }];
  if (request.url !== '/messages') return [404, { error: 'there is only POST /messages and GET /healthz' }];
  if (request.method !== 'POST') return [405, { error: 'POST a message' }];
  return [200, { response: await reply(await messageOf(request)) }];
}

async function respond(request, response) {
  const [status, body] = await answer(request).catch((error) => {
    if (error.status === undefined) console.error(error);
    return [error.status ?? 500, { error: error.status === undefined ? 'the agent failed' : error.message }];
  });
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

const server = createServer((request, response) => void respond(request, response));
server.listen(Number(PORT), HOST, () => console.log(`ready on port ${PORT}`));
process.on('SIGTERM', () => process.exit(0));
