/** Returns the origin in lower case, or null if the text is no origin of a web page. */
export function originOf(text: string): string | null {
  return /^https?:\/\/[^\s/?#@;]+$/i.test(text) && URL.canParse(text) ? new URL(text).origin : null;
}
