import type { AgentMessage } from './protocol.ts';

/** Returns the whole message as text, for protocols without payloads and attachments. */
export function messageText({ text, payload, attachments = [] }: AgentMessage): string {
  const parts = text === '' ? [] : [text];
  if (payload !== undefined && payload !== null) parts.push(typeof payload === 'string' ? payload : JSON.stringify(payload));
  if (attachments.length > 0)
    parts.push(['Attached files:', ...attachments.map(({ path, size }) => `- ${path} (${size} bytes)`)].join('\n'));
  return parts.join('\n\n');
}
