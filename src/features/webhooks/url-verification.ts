import { memberOf } from './json-member.ts';

/** The largest body in which a handshake is looked for, in bytes. Slack's has some 200. */
const BODY_BYTES_MAX = 16_384;
const TYPE = 'url_verification';

/** Returns whether the body is the handshake by which Slack verifies the address of a receiver. */
export function isUrlVerification(body: Buffer): boolean {
  return memberOf(body, 'type', BODY_BYTES_MAX) === TYPE;
}
