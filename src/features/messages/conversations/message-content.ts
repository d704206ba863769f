import { isUtf8 } from 'node:buffer';

import type { MessageAttachment } from '../../../agent-protocol/protocol.ts';
import { TEXT_BYTES_MAX } from './conversations.decider.ts';
import type { Channel } from './conversations.events.ts';

/** The content of a message, by channel. */
export type MessageContent =
  | { channel: 'chat'; text: string }
  /** The body is a string once it is known to be UTF-8. */
  | { channel: 'webhook'; body: Buffer | string; contentType: string | null; headers: Record<string, string>; url?: string }
  | { channel: 'attachment'; text: string; attachments: MessageAttachment[] };

type WebhookContent = Extract<MessageContent, { channel: 'webhook' }>;

/** The first line of the stored form of a message that is not a chat. */
interface ContentHeader {
  content_type?: string;
  headers?: Record<string, string>;
  url?: string;
  /** The value is true if the body is not UTF-8 and follows in base64. */
  base64?: true;
  attachments?: MessageAttachment[];
}

/**
 * Returns the stored form of a message: the text of a chat, or a line of JSON followed by the text or body of any other message. The body
 * is stored exactly as it was sent. Each returned text has at most `TEXT_BYTES_MAX` bytes; most messages are one text.
 */
export function writeContent(content: MessageContent): string[] {
  switch (content.channel) {
    case 'chat':
      return [content.text];
    case 'attachment':
      return splitUtf8(withHead({ attachments: content.attachments }, Buffer.from(content.text)));
    case 'webhook': {
      const body = typeof content.body === 'string' ? Buffer.from(content.body) : content.body;
      const head = webhookHead(content);
      return splitUtf8(
        isUtf8(body) ? withHead(head, body) : withHead({ ...head, base64: true }, Buffer.from(body.toString('base64'), 'latin1')),
      );
    }
  }
}

/** Returns the size of a webhook's headers as stored, in bytes. */
export function headBytes(webhook: WebhookContent): number {
  return Buffer.byteLength(JSON.stringify(webhookHead(webhook)));
}

function webhookHead({ contentType, headers, url }: WebhookContent): ContentHeader {
  return { headers, ...(url === undefined ? {} : { url }), ...(contentType === null ? {} : { content_type: contentType }) };
}

/** Returns the message for these texts. If later texts are missing, its text or body is cut short. */
export function readContent(channel: Channel, texts: readonly string[]): MessageContent {
  const whole = texts.join('');
  if (channel === 'chat') return { channel, text: whole };
  const end = whole.indexOf('\n');
  const { content_type, headers = {}, url, base64, attachments = [] } = JSON.parse(whole.slice(0, end)) as ContentHeader;
  const text = whole.slice(end + 1);
  if (channel === 'attachment') return { channel, text, attachments };
  return {
    channel,
    body: base64 ? Buffer.from(text, 'base64') : text,
    contentType: content_type ?? null,
    headers,
    ...(url === undefined ? {} : { url }),
  };
}

/** Returns the message as its thread shows it. */
export function displayText(content: MessageContent): string {
  switch (content.channel) {
    case 'chat':
      return content.text;
    case 'attachment': {
      const files = content.attachments.map(({ path, size }) => `- ${path} (${size} bytes)`);
      return [...(content.text === '' ? [] : [content.text]), ['Attached files:', ...files].join('\n')].join('\n\n');
    }
    case 'webhook':
      return typeof content.body === 'string' ? content.body : content.body.toString('base64');
  }
}

function withHead(head: ContentHeader, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body]);
}

/** Splits UTF-8 between characters into texts of at most `TEXT_BYTES_MAX` bytes. */
function splitUtf8(bytes: Buffer): string[] {
  const pieces: string[] = [];
  for (let from = 0; from < bytes.length || pieces.length === 0;) {
    let to = Math.min(from + TEXT_BYTES_MAX, bytes.length);
    while (to < bytes.length && ((bytes[to] as number) & 0xc0) === 0x80) to -= 1;
    pieces.push(bytes.toString('utf8', from, to));
    from = to;
  }
  return pieces;
}
