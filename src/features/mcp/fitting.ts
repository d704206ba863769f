/** If a text is shortened, this part of it is its start. The rest is its end, where programs print their errors. */
const SHOWN_START = 0.25;

/** Returns the number of bytes of the value as JSON. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/**
 * Returns the value unchanged if its JSON has at most `bytesMax` bytes. Otherwise it returns less: the first items of a list, or its last
 * ones if these matter most, and the members of an object without the middle of long texts.
 */
export function fitToBytes(value: unknown, bytesMax: number, keeps: 'first' | 'last' = 'first'): unknown {
  if (jsonBytes(value) <= bytesMax) return value;
  if (Array.isArray(value)) {
    const items = fittingItems(value, bytesMax, keeps);
    const single: unknown = keeps === 'first' ? value[0] : value.at(-1);
    return items.length > 0 ? items : [fitToBytes(single, bytesMax - 2)];
  }
  let length = bytesMax;
  let cut = value;
  while (length > 1 && jsonBytes(cut) > bytesMax) {
    length = Math.floor(length / 2);
    cut = withShortTexts(value, length);
  }
  return jsonBytes(cut) <= bytesMax ? cut : null;
}

function fittingItems(list: readonly unknown[], bytesMax: number, keeps: 'first' | 'last'): unknown[] {
  const ordered = keeps === 'first' ? list : list.toReversed();
  let bytes = 2;
  let count = 0;
  for (const item of ordered) {
    bytes += jsonBytes(item) + 1;
    if (bytes > bytesMax) break;
    count += 1;
  }
  const kept = ordered.slice(0, count);
  return keeps === 'first' ? kept : kept.toReversed();
}

function withShortTexts(value: unknown, length: number): unknown {
  if (typeof value === 'string') return shortened(value, length);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => withShortTexts(item, length));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withShortTexts(member, length)]));
}

function shortened(text: string, length: number): string {
  if (text.length <= length) return text;
  const beginning = text.slice(0, Math.floor(length * SHOWN_START));
  const end = text.slice(text.length - (length - beginning.length));
  return `${beginning}[… ${text.length - length} characters are left out …]${end}`.toWellFormed();
}
