/** A key, a session token, a ticket or a webhook's token of the service, as each of them begins. */
const credential = /m(k|s|t|wh)_[0-9A-Za-z_-]{40}/;
/** A run of base64, of either alphabet, that is long enough to hold a credential. */
const packed = /[0-9A-Za-z+/_-]{54,}/g;
/** A run of base64 may begin behind other characters of its alphabet, so that its groups of four are not known. */
const offsets = [0, 1, 2, 3];

/**
 * Returns whether a header holds a credential of the service, in clear or encoded as percent or base64 or as one in the other, as libraries
 * for cookies and proxies do. An agent never sees those of its callers; credentials of its own it gets. `name` is in lower case.
 */
export function holdsCredential(name: string, value: string): boolean {
  if (spellingsOf(value).some((text) => credential.test(text))) return true;
  // In these two even a part of a key is meant for the service.
  if (name === 'x-api-key') return /^\s*m[kst]_/.test(value);
  if (name !== 'authorization') return false;
  const basic = /^\s*basic\s+(\S+)/i.exec(value)?.[1];
  return /\bm[kst]_/.test(basic === undefined ? value : Buffer.from(basic, 'base64').toString('latin1'));
}

function spellingsOf(value: string): string[] {
  const once = percentDecoded(value);
  const plain = [...new Set([value, once, percentDecoded(once)])];
  const unpacked = plain.flatMap((text) =>
    [...text.matchAll(packed)].flatMap(([run]) => offsets.map((offset) => unpack(run.slice(offset)))),
  );
  return [...plain, ...unpacked, ...unpacked.map(percentDecoded)];
}

function unpack(run: string): string {
  return Buffer.from(run, 'base64').toString('latin1');
}

/** Decodes what is encoded rightly, and leaves the rest as it is. */
function percentDecoded(text: string): string {
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
