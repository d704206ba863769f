const ID_BYTES = 16;
/** The number of derived ids that are remembered per stream: the latest. */
export const DERIVED_IDS_MAX = 500;

/**
 * The ids of a stream's latest records, which are derived from what they record (UUIDv5). A command that is repeated after a crash finds
 * its record here, without reading the stream. Each id takes 16 bytes; the object is immutable.
 */
export class DerivedIds {
  static readonly none = new DerivedIds(Buffer.alloc(0));

  private constructor(private readonly bytes: Buffer) {}

  /** Parses what `toString` returned. Throws `RangeError` if the text is not a whole number of ids. */
  static parse(text: string): DerivedIds {
    const bytes = copyOf(Buffer.from(text, 'base64'));
    if (bytes.length % ID_BYTES !== 0) throw new RangeError('the text is not a list of ids');
    return bytes.length === 0 ? DerivedIds.none : new DerivedIds(bytes);
  }

  /** Returns whether the id is derived (a UUIDv5): only such ids are remembered. */
  static isDerived(id: string): boolean {
    return id[14] === '5';
  }

  get byteLength(): number {
    return this.bytes.length;
  }

  has(id: string): boolean {
    const wanted = bytesOf(id);
    for (let at = this.bytes.indexOf(wanted); at >= 0; at = this.bytes.indexOf(wanted, at + 1)) if (at % ID_BYTES === 0) return true;
    return false;
  }

  /** Returns these ids and the derived ones among the given ids; beyond 500 the oldest are dropped. */
  with(ids: readonly string[]): DerivedIds {
    const derived = ids.filter((id) => DerivedIds.isDerived(id));
    if (derived.length === 0) return this;
    const all = Buffer.concat([this.bytes, ...derived.map(bytesOf)]);
    return new DerivedIds(copyOf(all.subarray(-DERIVED_IDS_MAX * ID_BYTES)));
  }

  toString(): string {
    return this.bytes.toString('base64');
  }
}

/** Returns a copy in memory of its own. A slice of Node's pool would keep 8 KiB of it in memory for as long as the state is cached. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

function bytesOf(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
