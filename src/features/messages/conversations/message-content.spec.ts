import { isUtf8 } from 'node:buffer';

import fc from 'fast-check';

import { TEXT_BYTES_MAX } from './conversations.decider.ts';
import { readContent, displayText, writeContent, type MessageContent } from './message-content.ts';

const webhook = (body: Buffer, headers: Record<string, string> = {}, contentType: string | null = 'text/plain'): MessageContent => ({
  channel: 'webhook',
  body,
  contentType,
  headers,
});

function expectKept(content: MessageContent): void {
  const texts = writeContent(content);
  for (const text of texts) {
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(TEXT_BYTES_MAX);
    expect(text.isWellFormed()).toBe(true);
  }
  const { body, ...read } = { body: null, ...readContent(content.channel, texts) };
  const { body: sent, ...given } = { body: null, ...content };
  expect(read).toEqual(given);
  // A comparison of the bytes themselves is much faster than that of two buffers as objects.
  expect(Buffer.compare(Buffer.from(body ?? ''), Buffer.from(sent ?? ''))).toBe(0);
  expect(typeof body === 'string').toBe(sent instanceof Buffer && isUtf8(sent));
}

describe('what is stored of a message', () => {
  it('keeps a webhook byte by byte, whatever its body and its headers are', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 200 }),
          fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
        ),
        fc.dictionary(fc.string(), fc.string()),
        fc.option(fc.string()),
        (body, headers, contentType) => expectKept(webhook(Buffer.from(body), { ...headers }, contentType)),
      ),
    );
  });

  it.each([
    ['text', Buffer.alloc(1_048_576, 'x')],
    ['characters of three bytes', Buffer.alloc(1_048_575, '\u2003')],
    ['characters of four bytes', Buffer.alloc(1_048_576, '\u{1F6A2}')],
    ['no text', Buffer.alloc(1_048_576, 0xff)],
    ['JSON with a byte order mark', Buffer.from('\uFEFF{"a":1}\r\n')],
    ['nothing', Buffer.alloc(0)],
  ])('keeps a body of a megabyte of %s', (_, body) => {
    expectKept(webhook(body));
  });

  it('keeps a message about files', () => {
    const attachments = [{ path: '/data/inbox/a\n"b".txt', name: 'a\n"b".txt', size: 3, contentType: 'text/plain' }];
    expectKept({ channel: 'attachment', text: 'look\nat this', attachments });
    expect(
      displayText({ channel: 'attachment', text: 'look', attachments: [{ path: '/data/a', name: 'a', size: 3, contentType: 'x/y' }] }),
    ).toBe('look\n\nAttached files:\n- /data/a (3 bytes)');
  });

  it('is the text itself of a chat', () => {
    fc.assert(fc.property(fc.string(), (text) => expect(writeContent({ channel: 'chat', text })).toEqual([text])));
  });
});
