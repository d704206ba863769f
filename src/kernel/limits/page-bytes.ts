/** The most bytes of JSON that the items of one page have together; a page holds at least one item. */
export const PAGE_BYTES_MAX = 1_048_576;

/** Counts the bytes of the items of one page. */
export class PageBytes {
  private bytes = 0;

  /** Counts the item. Returns false if it is not the first one, and has no room in the page any more. */
  fits(item: unknown): boolean {
    const isFirst = this.bytes === 0;
    this.bytes += Buffer.byteLength(JSON.stringify(item));
    return isFirst || this.bytes <= PAGE_BYTES_MAX;
  }
}
