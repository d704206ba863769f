/** Returns the size of a whole body in bytes; 0 for a stream. */
export function payloadSize(payload: unknown): number {
  return typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0;
}
