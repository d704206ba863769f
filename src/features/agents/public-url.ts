/** Returns the path under which the port of a public agent is reached, without a trailing slash. */
export function publicPathOf(agentId: string): string {
  return `/a/${agentId}`;
}

/**
 * Returns the public address of an agent: a host name of its own if there is a domain for agents, or else a path of the service's
 * address. `base` is that address, such as `https://mooring.example.com`.
 */
export function publicUrlOf(agentId: string, base: string, domain: string | null): string {
  if (domain === null) return `${base}${publicPathOf(agentId)}/`;
  const { protocol, port } = new URL(base);
  return `${protocol}//${agentId}.${domain}${port === '' ? '' : `:${port}`}/`;
}
