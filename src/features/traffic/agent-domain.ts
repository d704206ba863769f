import { publicPathOf } from '../agents/index.ts';
import type { UrlRewriter } from '../../http/server/url-rewriter.ts';

/** Returns a function that routes requests for host names under the domain to the agents with these names; undefined without a domain. */
export function routeByDomain(domain: string | null): UrlRewriter | undefined {
  if (domain === null) return undefined;
  return ({ url = '', headers }) => {
    // A trailing dot marks a fully qualified name.
    const host = (headers.host ?? '').toLowerCase().replace(/\.?(:\d*)?$/, '');
    if (!host.endsWith(`.${domain}`)) return url;
    const name = host.slice(0, -domain.length - 1);
    return publicPathOf(name) + pathOf(url);
  };
}

/** Returns the path and query of a request's target, which may be an absolute URL (RFC 9112, 3.2.2). */
export function pathOf(target: string): string {
  return target.replace(/^https?:\/\/[^/]*/i, '');
}
