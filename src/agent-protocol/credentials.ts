/** A key, a session token, a ticket or a webhook's token of the service, as each of them begins. */
const credential = /m(k|s|t|wh)_[0-9A-Za-z_-]{40}/;
/** A run of base64, of either alphabet, and one of hex, that is long enough to hold a credential. */
const packed = /[0-9A-Za-z+/_-]{54,}/g;
const inHex = /(?:[0-9A-Fa-f]{2}){40,}/g;
/** A run of base64 may begin behind other characters of its alphabet, so that its groups of four are not known. */
const offsets = [0, 1, 2, 3];
/** The number of layers that are taken off, and of percent-decodings in each. */
const LAYERS_MAX = 3;
const PERCENT_MAX = 4;
/** The characters that are looked through for one header: some 60 times as many as a request's headers have. */
const CHARACTERS_MAX = 1_048_576;

/**
 * Returns whether a header holds a credential of the service, in clear or encoded as percent, base64, hex, UTF-16 or escapes of JSON, or as one in
 * the other, as libraries for cookies and proxies do. An agent never sees those of its callers; credentials of its own it gets. A header in so
 * many layers that not all can be looked through counts as one that holds a credential. `name` is in lower case.
 */
export function holdsCredential(name: string, value: string): boolean {
  if (holdsEncoded(value)) return true;
  // In these two even a part of a key is meant for the service.
  if (name === 'x-api-key') return /^\s*m[kst]_/.test(value);
  if (name !== 'authorization') return false;
  const basic = /^\s*basic\s+(\S+)/i.exec(value)?.[1];
  return /\bm[kst]_/.test(basic === undefined ? value : Buffer.from(basic, 'base64').toString('latin1'));
}

/** Takes off one layer of encodings after the other, and looks at each text on the way. */
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

/** Returns the text, and what it is without percent-encoding, escapes of JSON and the NULs of UTF-16; the last one is without all of them. */
function spellingsOf(text: string): string[] {
  const spellings = [text];
  for (let n = 0, last = text; n < PERCENT_MAX && last.includes('%'); n += 1) spellings.push((last = percentDecoded(last)));
  const last = spellings.at(-1) ?? text;
  const plain = last
    .replaceAll('\0', '')
    .replace(/(?<!\\)\\+u([0-9A-Fa-f]{4})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  return plain === last ? spellings : [...spellings, plain];
}

/** Returns what the runs of base64 and of hex in the text hold, those that are broken into lines among them. */
function unpacked(text: string): string[] {
  const whole = text.replace(/\s+/g, '');
  const sources = whole === text ? [text] : [text, whole];
  return sources.flatMap((source) => [
    ...[...source.matchAll(packed)].flatMap(([run]) => offsets.map((offset) => unpack(run.slice(offset), 'base64'))),
    ...[...source.matchAll(inHex)].flatMap(([run]) => [unpack(run, 'hex'), unpack(run.slice(1), 'hex')]),
  ]);
}

function unpack(run: string, encoding: 'base64' | 'hex'): string {
  return Buffer.from(run, encoding).toString('latin1');
}

/** Decodes what is encoded rightly, and leaves the rest as it is. */
function percentDecoded(text: string): string {
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
