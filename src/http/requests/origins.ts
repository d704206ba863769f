import type { Config } from '../../kernel/config/config.ts';

/**
 * Returns whether the value of an Origin header is the service's own origin: that of its configured address, or, without one, that of the
 * request's host.
 */
export function isOwnOrigin(origin: string, host: string, baseUrl: string | null): boolean {
  const own = baseUrl === null ? [`http://${host}`, `https://${host}`] : [new URL(baseUrl).origin];
  return own.includes(origin.toLowerCase());
}

/** Returns whether pages of the origin may call the service: its own pages, and those that the operator allows. */
export function isAllowedOrigin(
  origin: string,
  host: string,
  { baseUrl, allowedOrigins }: Pick<Config, 'baseUrl' | 'allowedOrigins'>,
): boolean {
  return isOwnOrigin(origin, host, baseUrl) || allowedOrigins.includes(origin.toLowerCase());
}
