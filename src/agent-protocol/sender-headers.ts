const allowed = new Set([
  'content-type',
  'user-agent',
  'x-request-id',
  'traceparent',
  // These describe a webhook's event, and let an agent verify it.
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'x-github-event',
  'x-github-delivery',
  'x-hub-signature',
  'x-hub-signature-256',
  'x-gitlab-event',
  'x-gitlab-event-uuid',
  'x-event-key',
  'stripe-signature',
  'x-slack-signature',
  'x-slack-request-timestamp',
  'x-shopify-topic',
  'x-shopify-hmac-sha256',
]);
const VALUE_MAX = 2_048;

/** Returns the caller's headers that an agent may see, with lower-case names. They never contain a credential of the caller. */
export function allowedHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const text = Array.isArray(value) ? value.join(', ') : value;
    if (text !== undefined && text.length <= VALUE_MAX && allowed.has(name.toLowerCase())) kept[name.toLowerCase()] = text;
  }
  return kept;
}
