/** A name or an address, and a port. */
const hostForm = /^(\[[0-9a-f:.]+\]|[0-9a-z_-]+(\.[0-9a-z_-]+)*\.?)(:\d*)?$/i;
/** The authority of a target in absolute form (RFC 9112, 3.2.2). */
const absolute = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i;

/** The parts of a request that name its host. */
export interface Addressed {
  rawHeaders: readonly string[];
  httpVersion: string;
  /** The target of the request, as it was sent. */
  target: string;
}

/**
 * Returns what is wrong with the host that a request names; null if nothing is. Requests are routed by that host, and a proxy in front of
 * the service may parse anything but a plain name differently.
 */
export function hostFault({ rawHeaders, httpVersion, target }: Addressed): string | null {
  const [host, ...others] = rawHeaders.filter((_, at) => rawHeaders[at - 1]?.toLowerCase() === 'host' && at % 2 === 1);
  if (others.length > 0) return 'There is more than one Host header.';
  if (host === undefined) return httpVersion === '1.1' ? 'The Host header is missing.' : null;
  if (host !== '' && !(hostForm.test(host) && URL.canParse(`http://${host}`))) return 'The Host header is no name with a port.';
  const authority = absolute.exec(target)?.[1];
  if (authority !== undefined && authority.toLowerCase() !== host.toLowerCase())
    return 'The address and the Host header name different hosts.';
  return null;
}
