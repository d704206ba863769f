/** The name or the address of a host as a URL spells it. The URL parser alone would allow wildcards and quotation marks. */
const HOST = /^([a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])$/;

/** Returns the origin in lower case, or null if the text is not the origin of a web page. */
export function originOf(text: string): string | null {
  if (!/^https?:\/\/[^\s/?#@;\\\p{Cc}]+$/iu.test(text) || !URL.canParse(text)) return null;
  const { hostname, origin } = new URL(text);
  return HOST.test(hostname) ? origin : null;
}
