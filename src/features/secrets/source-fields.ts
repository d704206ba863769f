import { canonicalRegistry } from '../../kernel/network/image-reference.ts';
import { type SourceKind, sourceKinds } from './secrets.events.ts';
import type { Source } from './source-credentials.decider.ts';

const HOST_MAX = 261;
const PORT_MAX = 65_535;
const USERNAME_MAX = 255;

const hostName = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/;

export function isSourceKind(kind: string): kind is SourceKind {
  return (sourceKinds as readonly string[]).includes(kind);
}

/**
 * Returns the canonical spelling of a host with an optional port, in lower case, or null if it is none. The default registry of engines has
 * one spelling, `docker.io`.
 */
export function canonicalHost(kind: SourceKind, text: string): string | null {
  const lower = text.toLowerCase();
  const [, name = '', port] = /^([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?$/.exec(lower) ?? [];
  const isHost = hostName.test(name) || (name.startsWith('[') && URL.canParse(`http://${name}`));
  if (lower.length > HOST_MAX || !isHost) return null;
  if (port !== undefined && (port.startsWith('0') || Number(port) > PORT_MAX)) return null;
  return kind === 'registry' ? canonicalRegistry(lower) : lower;
}

/** Returns the source for a kind and a host; null if they are invalid. */
export function sourceOf(kind: string, text: string): Source | null {
  if (!isSourceKind(kind)) return null;
  const host = canonicalHost(kind, text);
  return host === null ? null : { kind, host };
}

/** Returns what is wrong with a user name, or null. A colon would end the user name in the header (RFC 7617). */
export function usernameProblem(username: string): string | null {
  const isFit = username !== '' && username.length <= USERNAME_MAX && !/[:\p{Cc}\p{Cs}]/u.test(username);
  return isFit ? null : `must have 1 to ${USERNAME_MAX} characters, none of them a colon or a control character`;
}
