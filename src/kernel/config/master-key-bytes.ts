/** Returns the 32 bytes that a written master key stands for, or null. */
export function masterKeyBytes(written: string): Buffer | null {
  const bytes = /^[0-9a-fA-F]{64}$/.test(written) ? Buffer.from(written, 'hex') : Buffer.from(written, 'base64');
  return bytes.length === 32 ? bytes : null;
}
