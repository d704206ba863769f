/** The part of a text that is shown of its beginning, if it has to be cut; the rest is its end, where the errors of programs stand. */
const BEGINNING = 0.25;

/** Returns the number of bytes of the value as JSON. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/**
 * Returns the value as it is if its JSON has at most so many bytes. Else returns less of it: of a list its first items, or its last ones if the list
 * ends with what matters most, and of an object its members with the middle of long texts left out.
 */
export function fitted(value: unknown, bytesMax: number, keeps: 'first' | 'last' = 'first'): unknown {
  if (jsonBytes(value) <= bytesMax) return value;
  if (Array.isArray(value)) {
    const items = fittingItems(value, bytesMax, keeps);
    const single: unknown = keeps === 'first' ? value[0] : value.at(-1);
    return items.length > 0 ? items : [fitted(single, bytesMax - 2)];
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
  const beginning = text.slice(0, Math.floor(length * BEGINNING));
  const end = text.slice(text.length - (length - beginning.length));
  return `${beginning}[… ${text.length - length} characters are left out …]${end}`.toWellFormed();
}
