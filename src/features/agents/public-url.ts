/** Returns the path under which the port of a public agent is reached, without a slash at its end. */
export function publicPathOf(agentId: string): string {
  return `/a/${agentId}`;
}

/**
 * Returns the address at which anybody reaches the port of a public agent: a host name of its own under the domain, if there is one, or a
 * path of the service's own address. `base` is that address, such as `https://mooring.example.com`.
 */
export function publicUrlOf(agentId: string, base: string, domain: string | null): string {
  if (domain === null) return `${base}${publicPathOf(agentId)}/`;
  const { protocol, port } = new URL(base);
  return `${protocol}//${agentId}.${domain}${port === '' ? '' : `:${port}`}/`;
}
