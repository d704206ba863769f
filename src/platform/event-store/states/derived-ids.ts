const ID_BYTES = 16;
/** Derived ids of one stream that are remembered, the latest. */
export const DERIVED_IDS_MAX = 500;

/**
 * The ids of a stream's latest records: those that are derived from what they record (UUIDv5). A command that is repeated after a crash
 * finds its record here, without a read of the stream. 16 bytes an id; never changed in place.
 */
export class DerivedIds {
  static readonly none = new DerivedIds(Buffer.alloc(0));

  private constructor(private readonly bytes: Buffer) {}

  /** As `toString` wrote them. */
  static parse(text: string): DerivedIds {
    const bytes = Buffer.from(text, 'base64');
    if (bytes.length % ID_BYTES !== 0) throw new RangeError('these are no ids');
    return bytes.length === 0 ? DerivedIds.none : new DerivedIds(bytes);
  }

  /** Whether ids of this form are remembered. */
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

  /** With the ids among these that are derived; the oldest are forgotten where there are more than 500. */
  with(ids: readonly string[]): DerivedIds {
    const derived = ids.filter((id) => DerivedIds.isDerived(id));
    if (derived.length === 0) return this;
    const all = Buffer.concat([this.bytes, ...derived.map(bytesOf)]);
    return new DerivedIds(all.length > DERIVED_IDS_MAX * ID_BYTES ? Buffer.from(all.subarray(-DERIVED_IDS_MAX * ID_BYTES)) : all);
  }

  toString(): string {
    return this.bytes.toString('base64');
  }
}

function bytesOf(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
