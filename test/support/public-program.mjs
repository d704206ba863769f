import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

/** The program of a public agent in a container: it hashes uploads, and responds to each piece of a WebSocket with `heard`. */

const HANDSHAKE = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const frame = (text) => Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);

const server = createServer((request, response) => {
  const hash = createHash('sha256');
  request.on('data', (bytes) => hash.update(bytes));
  request.on('end', () => response.end(request.method === 'POST' ? hash.digest('hex') : 'well'));
});
server.on('upgrade', ({ headers }, socket) => {
  const accept = createHash('sha1').update(`${headers['sec-websocket-key']}${HANDSHAKE}`).digest('base64');
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', `Sec-WebSocket-Accept: ${accept}`];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  socket.on('error', () => undefined);
  socket.on('data', () => socket.write(frame('heard')));
  socket.on('end', () => socket.end());
});
server.listen(Number(process.env.PORT));
process.on('SIGTERM', () => process.exit(0));
