import type { ServerResponse } from 'node:http';

import type { FakeContainer } from './container.ts';

const HEADER_BYTES = 8;
const STREAM_NUMBERS = { stdout: 1, stderr: 2, engineError: 3 };

/**
 * Sends the container's output with timestamps, framed as an engine frames it. With `follow` it continues until the container ends; with
 * `tail` it is so many of the last lines.
 */
export function sendLog(container: FakeContainer, query: URLSearchParams, response: ServerResponse): void {
  const since = Number(query.get('since') ?? 0);
  const follow = ['1', 'true'].includes(query.get('follow') ?? '');
  response.writeHead(200, { 'content-type': 'application/vnd.docker.raw-stream' }).flushHeaders();
  const tail = query.get('tail');
  if (tail !== null && !follow) {
    const all = container.log.flatMap(({ time, stream, bytes }) =>
      linesOf(bytes).map((line) => frame(stream, Buffer.concat([Buffer.from(`${time} `), line]))),
    );
    return void response.end(Buffer.concat(all.slice(-Number(tail))));
  }
  let sent = '';
  const send = () => {
    for (const { time, stream, bytes } of container.log) {
      if (time <= sent || Date.parse(`${time.slice(0, 23)}Z`) / 1_000 < since) continue;
      sent = time;
      for (const line of linesOf(bytes)) response.write(frame(stream, Buffer.concat([Buffer.from(`${time} `), line])));
    }
    if (follow && container.running) return;
    container.followers.delete(send);
    response.end();
  };
  if (follow) {
    container.followers.add(send);
    response.on('close', () => container.followers.delete(send));
  }
  send();
}

/** Returns the lines with their line ends; text after the last line end is a line, too. */
function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; from < bytes.length;) {
    const end = bytes.indexOf(0x0a, from);
    const to = end < 0 ? bytes.length : end + 1;
    lines.push(bytes.subarray(from, to));
    from = to;
  }
  return lines;
}

/** Returns a frame as an engine makes it: a header with the stream's number and the length, then the payload. */
export function frame(stream: keyof typeof STREAM_NUMBERS, payload: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header[0] = STREAM_NUMBERS[stream];
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}
