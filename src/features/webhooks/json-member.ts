/** Returns a member of the object in the body; undefined if the body has more bytes than that, or is no JSON object with the member. */
export function memberOf(body: Buffer, member: string, bytesMax: number): unknown {
  if (body.length > bytesMax) return undefined;
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[member] : undefined;
  } catch {
    return undefined;
  }
}
