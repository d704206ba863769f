/** Matches the start of a key, session token, ticket or webhook token of the service. */
const credential = /m(k|s|t|wh)_[0-9A-Za-z_-]{40}/;
/** Match a run of base64 (of either alphabet) and a run of hex that are long enough to contain a credential. */
const base64Run = /[0-9A-Za-z+/_-]{54,}/g;
const hexRun = /(?:[0-9A-Fa-f]{2}){40,}/g;
/** A run of base64 may follow other characters of its alphabet, so it is decoded at each offset of a group of four. */
const offsets = [0, 1, 2, 3];
/** The most layers of encoding that are decoded, and the most percent-decodings in each. */
const LAYERS_MAX = 3;
const PERCENT_MAX = 4;
/** The most characters that are searched for one header: about 60 times the size of a request's headers. */
const CHARACTERS_MAX = 1_048_576;

/**
 * Returns whether a header contains a credential of the service: in plain text, or encoded with percent encoding, base64, hex, UTF-16 or
 * JSON escapes, in any nesting, as libraries for cookies and proxies do. An agent never sees such credentials of its callers, but gets
 * credentials of its own. A header with too many layers to search counts as containing one. `name` is in lower case.
 */
export function holdsCredential(name: string, value: string): boolean {
  if (holdsEncoded(value)) return true;
  // In these two headers, even a part of a key is meant for the service.
  if (name === 'x-api-key') return /^\s*m[kst]_/.test(value);
  if (name !== 'authorization') return false;
  const basic = /^\s*basic\s+(\S+)/i.exec(value)?.[1];
  return /\bm[kst]_/.test(basic === undefined ? value : Buffer.from(basic, 'base64').toString('latin1'));
}

/** Decodes one layer of encoding after the other, and searches each text. */
function holdsEncoded(value: string): boolean {
  let texts = new Set([value]);
  let left = CHARACTERS_MAX;
  for (let layer = 0; texts.size > 0; layer += 1) {
    const inner = new Set<string>();
    for (const text of texts) {
      left -= text.length;
      if (left < 0) return true;
      const spellings = spellingsOf(text);
      if (spellings.some((each) => credential.test(each))) return true;
      if (layer < LAYERS_MAX) for (const each of unpacked(spellings.at(-1) ?? text)) inner.add(each);
    }
    texts = inner;
  }
  return false;
}

/** Returns the text, and the text without percent encoding, JSON escapes and the NULs of UTF-16; the last one is without all of them. */
function spellingsOf(text: string): string[] {
  const spellings = [text];
  for (let n = 0, last = text; n < PERCENT_MAX && last.includes('%'); n += 1) spellings.push((last = percentDecoded(last)));
  const last = spellings.at(-1) ?? text;
  const plain = last
    .replaceAll('\0', '')
    .replace(/(?<!\\)\\+u([0-9A-Fa-f]{4})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  return plain === last ? spellings : [...spellings, plain];
}

/** Returns the decoded runs of base64 and hex in the text, including those that are broken into lines. */
function unpacked(text: string): string[] {
  const whole = text.replace(/\s+/g, '');
  const sources = whole === text ? [text] : [text, whole];
  return sources.flatMap((source) => [
    ...[...source.matchAll(base64Run)].flatMap(([run]) => offsets.map((offset) => unpack(run.slice(offset), 'base64'))),
    ...[...source.matchAll(hexRun)].flatMap(([run]) => [unpack(run, 'hex'), unpack(run.slice(1), 'hex')]),
  ]);
}

function unpack(run: string, encoding: 'base64' | 'hex'): string {
  return Buffer.from(run, encoding).toString('latin1');
}

/** Decodes valid percent encoding, and leaves the rest unchanged. */
function percentDecoded(text: string): string {
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
