const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Returns the bytes as one number in base 62, padded to the length of the largest number of that many bytes. */
export function base62(bytes: Uint8Array): string {
  const length = Math.ceil((bytes.length * 8) / Math.log2(62));
  let number = BigInt(`0x${Buffer.from(bytes).toString('hex') || '0'}`);
  let text = '';
  for (let index = 0; index < length; index += 1) {
    text = `${DIGITS[Number(number % 62n)]}${text}`;
    number /= 62n;
  }
  return text;
}
