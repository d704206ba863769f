import { memberOf } from './json-member.ts';

/** The headers with the id of a delivery, by sender: GitHub, Standard Webhooks, Svix, GitLab and Shopify. */
const ID_HEADERS = ['x-github-delivery', 'webhook-id', 'svix-id', 'x-gitlab-event-uuid', 'x-shopify-webhook-id'];
/** The senders with the id of a delivery in the body: the header by which they are recognised, and the member. */
const ID_MEMBERS = [
  { sender: 'stripe', header: 'stripe-signature', member: 'id' },
  { sender: 'slack', header: 'x-slack-signature', member: 'event_id' },
];
/** The longest id in characters, and the largest body that is searched for one. */
const ID_MAX = 255;
const BODY_BYTES_MAX = 262_144;

/** Returns the sender's id of a delivery, which its repeats share; null if there is none. */
export function deliveryIdOf(headers: Record<string, string | string[] | undefined>, body: Buffer): string | null {
  for (const name of ID_HEADERS) {
    const id = headers[name];
    if (isId(id)) return `${name} ${id}`;
  }
  for (const { sender, header, member } of ID_MEMBERS) {
    const id = headers[header] === undefined ? undefined : memberOf(body, member, BODY_BYTES_MAX);
    if (isId(id)) return `${sender} ${id}`;
  }
  return null;
}

function isId(id: unknown): id is string {
  return typeof id === 'string' && id !== '' && id.length <= ID_MAX;
}
