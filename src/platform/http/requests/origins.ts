import type { Config } from '../../config/config.ts';

/** Returns whether pages of the origin may call the service: its own pages, and those that the operator allows. */
export function isAllowedOrigin(
  origin: string,
  host: string,
  { baseUrl, allowedOrigins }: Pick<Config, 'baseUrl' | 'allowedOrigins'>,
): boolean {
  const own = baseUrl === null ? [`http://${host}`, `https://${host}`] : [new URL(baseUrl).origin];
  return [...own, ...allowedOrigins].includes(origin.toLowerCase());
}
