import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';

import fc from 'fast-check';

import { span } from '../../../test/support/until.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { type FormFile, MultipartForm } from './multipart-form.ts';

const rules = { file: 'file', fileBytesMax: 100_000, texts: { dest_dir: 100, message: 1_000 } };

interface Seen {
  name: string;
  contentType: string;
  bytes: Buffer;
  texts: Readonly<Record<string, string>>;
}

/** Consumes the file as the routes do. A test may replace it. */
let take: (file: FormFile) => Promise<unknown>;
let outcomes: unknown[];
let stallMs: number | undefined;
let server: Server;
let port: number;

const reads = async ({ name, contentType, content, texts }: FormFile): Promise<Seen> => {
  const chunks: Buffer[] = [];
  for await (const chunk of content) chunks.push(chunk as Buffer);
  return { name, contentType, bytes: Buffer.concat(chunks), texts: await texts };
};

async function outcomeOf(request: IncomingMessage): Promise<unknown> {
  try {
    return await (await MultipartForm.of(request, rules, stallMs)).read((file) => take(file));
  } catch (error) {
    return error instanceof ProblemError ? { code: error.code, field: error.facts.errors?.[0]?.field, detail: error.message } : error;
  }
}

beforeEach(() => {
  take = reads;
  outcomes = [];
  stallMs = undefined;
});
beforeAll(async () => {
  server = createServer((request, response) => {
    void outcomeOf(request).then((outcome) => {
      outcomes.push(outcome);
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => server.close());

type Part = [head: string, content: string | Buffer];
const file = (name: string, content: string | Buffer): Part => [`name="file"; filename="${name}"\r\ncontent-type: text/x`, content];
const text = (name: string, content: string): Part => [`name="${name}"`, content];

function formOf(parts: Part[], end = '--b--\r\n'): Buffer {
  const all = parts.flatMap(([head, content]) => [
    Buffer.from(`--b\r\ncontent-disposition: form-data; ${head}\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...all, Buffer.from(end)]);
}

async function send(body: Buffer, contentType = 'multipart/form-data; boundary=b'): Promise<unknown> {
  await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body, headers: { 'content-type': contentType, connection: 'close' } });
  return outcomes.at(-1);
}

const seen = (name: string, content: string, texts: Record<string, string> = {}): Seen => ({
  name,
  contentType: 'text/x',
  bytes: Buffer.from(content),
  texts,
});

describe('a form with a file', () => {
  it('may have its texts before and after the file', async () => {
    const [path, message] = [text('dest_dir', '/data/a'), text('message', 'hällo')];
    for (const parts of [
      [path, message, file('a.txt', 'content')],
      [file('a.txt', 'content'), message, path],
    ])
      expect(await send(formOf(parts))).toEqual(seen('a.txt', 'content', { dest_dir: '/data/a', message: 'hällo' }));
  });

  it('discards the path in the file’s name', async () => {
    for (const path of ['../../a', '/etc/a', 'C:\\temp\\a', '..\\a', 'x/../a'])
      expect(await send(formOf([file(path.replaceAll('\\', '\\\\'), 'x')]))).toMatchObject({ name: 'a' });
    expect(await send(formOf([file('ünï.txt', 'x')]))).toMatchObject({ name: 'ünï.txt' });
  });

  it('passes on every byte, wherever the form is cut in transit', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.array(fc.nat(300), { maxLength: 6 }), async (bytes, cuts) => {
        const body = formOf([file('f', Buffer.from(bytes)), text('message', 'x')]);
        const places = [0, ...cuts.map((cut) => Math.min(cut, body.length)).toSorted((a, b) => a - b), body.length];
        const before = outcomes.length;
        await new Promise<void>((resolve) => {
          const socket = connect(port, '127.0.0.1', () => {
            socket.write('POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n');
            socket.write('content-type: multipart/form-data; boundary=b\r\n\r\n');
            for (let n = 1; n < places.length; n += 1) {
              const part = body.subarray(places[n - 1], places[n]);
              if (part.length > 0) socket.write(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]));
            }
            socket.write('0\r\n\r\n');
          });
          socket.resume().on('close', () => resolve());
        });
        expect(outcomes.length).toBe(before + 1);
        expect((outcomes.at(-1) as Seen).bytes).toEqual(Buffer.from(bytes));
      }),
      { numRuns: 50 },
    );
  });

  it('is refused if its boundary is longer than 70 characters', async () => {
    const typeOf = (length: number) => `multipart/form-data; charset=utf-8; boundary="${'b'.repeat(length)}"`;
    for (const length of [71, 300]) expect(await send(Buffer.from('x'), typeOf(length))).toMatchObject({ code: 'invalid_request' });
    const body = Buffer.from(
      formOf([file('a', 'x')])
        .toString()
        .replaceAll(/--b(?=\r|--)/g, `--${'b'.repeat(70)}`),
    );
    expect(await send(body, typeOf(70))).toMatchObject({ name: 'a' });
  });

  it('is refused with the name of the wrong field, and its file then ends with that error', async () => {
    const good = file('a', 'x');
    const cases: [parts: Part[], field: string][] = [
      [[], 'file'],
      [[text('message', 'x')], 'file'],
      [[text('file', 'x')], 'file'],
      [[good, good], 'file'],
      [[good, text('other', 'x')], 'other'],
      [[text('__proto__', 'x'), good], '__proto__'],
      [[good, ['name="other"; filename="b"', 'x']], 'other'],
      [[good, text('message', 'x'), text('message', 'y')], 'message'],
      [[good, text('message', 'x'.repeat(1_001))], 'message'],
      [[text('dest_dir', 'é'.repeat(51)), good], 'dest_dir'],
    ];
    for (const [parts, field] of cases) {
      let ended: unknown = 'not begun';
      take = (taken) =>
        reads(taken).then(
          () => (ended = 'whole'),
          (error: unknown) => {
            ended = error;
            throw error;
          },
        );
      expect(await send(formOf(parts))).toMatchObject({ code: 'invalid_request', field });
      expect(ended).not.toBe('whole');
    }
  });

  it('is refused if it is malformed, cut short, or no form at all', async () => {
    expect(await send(formOf([file('a', 'x')], ''))).toMatchObject({ code: 'invalid_request' });
    expect(await send(formOf([file('a', 'x')], '--b\r\ncontent-disposition: form-data; na'))).toMatchObject({ code: 'invalid_request' });
    expect(await send(Buffer.from('no form'))).toMatchObject({ code: 'invalid_request' });
    expect(await send(Buffer.alloc(0))).toMatchObject({ code: 'invalid_request' });
    expect(await send(formOf(Array.from({ length: 20 }, (_, n) => text(`t${n}`, 'x'))))).toMatchObject({ code: 'invalid_request' });
    for (const type of ['application/json', 'multipart/form-data', 'multipart/mixed; boundary=b'])
      expect(await send(formOf([file('a', 'x')]), type)).toMatchObject({ code: 'unsupported_media_type' });
  });

  it('ends its file with an error if its sender disconnects in the middle', async () => {
    let begin: () => void = () => {};
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const ended = new Promise<unknown>((resolve) => {
      take = (taken) => {
        begin();
        return reads(taken).catch((error: unknown) => {
          resolve(error);
          throw error;
        });
      };
    });
    const socket = connect(port, '127.0.0.1', () => {
      socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\ncontent-type: multipart/form-data; boundary=b\r\n\r\n');
      socket.write(formOf([file('a', 'x')], '').subarray(0, -2));
    });
    await begun;
    socket.destroy();
    expect(await ended).toMatchObject({ code: 'invalid_request' });
  });

  it('is refused if its sender stops in the middle and keeps the connection', async () => {
    stallMs = 20;
    const socket = connect(port, '127.0.0.1', () => {
      socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\ncontent-type: multipart/form-data; boundary=b\r\n\r\n');
      socket.write(formOf([file('a', 'x')], '').subarray(0, -2));
    });
    await once(socket.resume(), 'data');
    expect(outcomes).toMatchObject([{ code: 'invalid_request', detail: 'The form comes too slowly.' }]);
    socket.destroy();
  });

  it.each([
    ['whole', 10],
    ['in part', 90_000],
  ])('that has arrived %s is not refused as late while the consumer of the file waits', async (_, bytes) => {
    stallMs = 1_000;
    take = async (taken) => {
      await span(2_500);
      return reads(taken);
    };
    expect(await send(formOf([file('a', Buffer.alloc(bytes))]))).toMatchObject({ name: 'a', bytes: Buffer.alloc(bytes) });
  });

  it('is refused with the error of the file’s consumer, which its sender can read', async () => {
    take = () => Promise.reject(new ProblemError('file_not_found', 'There is no such directory.'));
    expect(await send(formOf([file('a', Buffer.alloc(90_000)), text('message', 'x')]))).toMatchObject({ code: 'file_not_found' });
  });

  it('is refused before it is read if its announced length is too large', async () => {
    take = () => Promise.reject(new Error('it was read'));
    expect(await send(formOf([file('a', Buffer.alloc(500_000))]))).toMatchObject({ code: 'payload_too_large' });
  });
});
