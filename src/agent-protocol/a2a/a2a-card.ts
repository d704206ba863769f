import { AgentErrorResponse } from '../protocol.ts';

/** The supported versions of the protocol. */
export type A2aVersion = '1.0' | '0.3';

/** The address and the version by which the agent is called with JSON-RPC. */
export interface A2aInterface {
  version: A2aVersion;
  /** The path with its query, at the agent's own port. The rest of the card's address is not used, so that a call never leaves the agent. */
  path: string;
  tenant: string | null;
  streams: boolean;
}

interface Card {
  /** The interfaces of a card of version 1.0. */
  supportedInterfaces?: unknown;
  capabilities?: { streaming?: unknown };
  /** The members of a card of version 0.3. */
  url?: unknown;
  preferredTransport?: unknown;
  additionalInterfaces?: unknown;
}

const PATH_LENGTH_MAX = 2_048;
const TENANT_LENGTH_MAX = 256;

/**
 * Returns the JSON-RPC interface of the newest supported version in the agent's card, whose address may be below `publicPath`. Throws
 * `AgentErrorResponse`.
 */
export function interfaceIn(card: unknown, publicPath: string): A2aInterface {
  const { capabilities, ...members } = (card ?? {}) as Card;
  const streams = capabilities?.streaming === true;
  const found = offersIn(members.supportedInterfaces).toSorted((a, b) => Number(b.version === '1.0') - Number(a.version === '1.0'))[0];
  const chosen = found ?? ofVersion03(members);
  if (chosen === undefined) throw new AgentErrorResponse(200, 'its card offers no JSON-RPC of version 1.0 or 0.3');
  return { ...chosen, path: pathOf(chosen.url, publicPath), streams };
}

interface Offer {
  version: A2aVersion;
  url: unknown;
  tenant: string | null;
}

function offersIn(interfaces: unknown): Offer[] {
  if (!Array.isArray(interfaces)) return [];
  return (interfaces as unknown[]).flatMap((each) => {
    const { url, protocolBinding, protocolVersion, tenant } = (each ?? {}) as Record<string, unknown>;
    const version = versionOf(protocolVersion);
    if (protocolBinding !== 'JSONRPC' || version === null) return [];
    const isTenant = typeof tenant === 'string' && tenant !== '' && tenant.length <= TENANT_LENGTH_MAX;
    return [{ version, url, tenant: isTenant ? tenant : null }];
  });
}

function versionOf(version: unknown): A2aVersion | null {
  if (typeof version !== 'string') return null;
  return /^1(\.|$)/.test(version) ? '1.0' : /^0\.3(\.|$)/.test(version) ? '0.3' : null;
}

function ofVersion03({ url, preferredTransport = 'JSONRPC', additionalInterfaces }: Card): Offer | undefined {
  const others = (Array.isArray(additionalInterfaces) ? additionalInterfaces : []) as ({ url?: unknown; transport?: unknown } | null)[];
  const found = [{ url, transport: preferredTransport }, ...others].find((each) => each?.transport === 'JSONRPC' && each.url !== undefined);
  return found == null ? undefined : { version: '0.3', url: found.url, tenant: null };
}

function pathOf(url: unknown, publicPath: string): string {
  const parsed = typeof url === 'string' && URL.canParse(url, 'http://agent') ? new URL(url, 'http://agent') : null;
  const path = parsed === null ? null : `${withoutPublicPath(parsed.pathname, publicPath)}${parsed.search}`;
  if (path === null || !path.startsWith('/') || path.length > PATH_LENGTH_MAX)
    throw new AgentErrorResponse(200, 'its card names no usable address');
  return path;
}

/** Returns the path at which public traffic reaches the agent. The public path may itself be below a path of the service's address. */
function withoutPublicPath(path: string, publicPath: string): string {
  const at = path.indexOf(publicPath);
  const rest = at === -1 ? path : path.slice(at + publicPath.length) || '/';
  return rest.startsWith('/') ? rest : path;
}
