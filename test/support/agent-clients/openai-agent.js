// A server of the chat completions protocol. It streams the second half of a reply only after a GET of /next.
const { createServer } = require('node:http');
const { json } = require('node:stream/consumers');

let sendRest = () => undefined;
const models = { object: 'list', data: [{ id: 'parrot', object: 'model', created: 1, owned_by: 'me' }] };

function stream(response, model, pieces) {
  const chunk = (delta, finish = null) => {
    const choices = [{ index: 0, delta, finish_reason: finish }];
    response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model, choices })}\n\n`);
  };
  response.setHeader('content-type', 'text/event-stream');
  chunk({ role: 'assistant', content: pieces[0] });
  sendRest = () => {
    chunk({ content: pieces[1] });
    chunk({}, 'stop');
    response.end('data: [DONE]\n\n');
  };
}

async function answer(request, response) {
  if (request.url === '/healthz') return response.end();
  if (request.url === '/next') return response.end(sendRest());
  response.setHeader('content-type', 'application/json');
  if (request.url === '/v1/models') return response.end(JSON.stringify(models));
  if (request.url !== '/v1/chat/completions') return response.writeHead(404).end('{"error": {"message": "not found"}}');
  const { model, messages, stream: isStreamed } = await json(request);
  const pieces = [`${messages.length}: `, messages.at(-1).content];
  if (isStreamed) return stream(response, model, pieces);
  const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: pieces.join('') } }];
  return response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model, choices }));
}

createServer((request, response) => {
  answer(request, response).catch(() => response.writeHead(400).end());
}).listen(process.env.PORT, process.env.HOST);
