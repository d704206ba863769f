/** Returns whether an Accept header (RFC 9110) names the media type, and no other type that its caller prefers. */
export function prefers(accept: string, mediaType: string): boolean {
  const ranges = accept.split(',').map(rangeOf);
  const quality = Math.max(0, ...ranges.filter(({ name }) => name === mediaType).map((range) => range.quality));
  return quality > 0 && ranges.every((range) => range.quality <= quality);
}

function rangeOf(text: string): { name: string; quality: number } {
  const [name = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const given = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
  // An invalid weight counts as none.
  return { name, quality: given !== undefined && /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(given) ? Number(given) : 1 };
}
