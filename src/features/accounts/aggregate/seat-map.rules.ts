const BITS = 5;
const WIDTH = 1 << BITS;
/** The number of levels. With 32,768 leaves, a leaf of an account of 100,000 seats has three entries. */
const LEVELS = 3;

/** A node under construction, which no other map shares yet. */
type MutableNode<V> = (MutableNode<V> | Map<string, V> | undefined)[];
type Node<V> = readonly (Node<V> | undefined)[] | ReadonlyMap<string, V>;

/**
 * An immutable map. A change returns a new map that shares nearly all of the old one, because states are cached and shared between calls
 * and an account may have 100 000 seats. A change copies three arrays of 32 and one leaf, not the whole map.
 */
export class SeatMap<V> {
  private constructor(
    private readonly root: Node<V> | undefined,
    readonly size: number,
  ) {}

  static empty<V>(): SeatMap<V> {
    return new SeatMap<V>(undefined, 0);
  }

  /** Makes a map of the entries; each key may occur only once. */
  static of<V>(entries: readonly (readonly [key: string, value: V])[]): SeatMap<V> {
    const root: MutableNode<V> = [];
    for (const [key, value] of entries) {
      const hash = hashOf(key);
      let node = root;
      for (let level = 0; level < LEVELS - 1; level += 1) node = (node[slotOf(hash, level)] ??= []) as MutableNode<V>;
      const leaf = (node[slotOf(hash, LEVELS - 1)] ??= new Map<string, V>()) as Map<string, V>;
      leaf.set(key, value);
    }
    return new SeatMap<V>(entries.length === 0 ? undefined : root, entries.length);
  }

  *[Symbol.iterator](): IterableIterator<[key: string, value: V]> {
    for (const leaf of leavesOf(this.root, 0)) yield* leaf;
  }

  get(key: string): V | undefined {
    const hash = hashOf(key);
    let node = this.root;
    for (let level = 0; level < LEVELS && node !== undefined; level += 1) node = (node as readonly Node<V>[])[slotOf(hash, level)];
    return (node as ReadonlyMap<string, V> | undefined)?.get(key);
  }

  set(key: string, value: V): SeatMap<V> {
    const grown = this.get(key) === undefined ? 1 : 0;
    return new SeatMap(
      withChangedLeaf(this.root, hashOf(key), 0, (leaf) => new Map(leaf).set(key, value)),
      this.size + grown,
    );
  }

  delete(key: string): SeatMap<V> {
    if (this.get(key) === undefined) return this;
    const without = (leaf: ReadonlyMap<string, V>) => new Map([...leaf].filter(([other]) => other !== key));
    return new SeatMap(withChangedLeaf(this.root, hashOf(key), 0, without), this.size - 1);
  }
}

function withChangedLeaf<V>(
  node: Node<V> | undefined,
  hash: number,
  level: number,
  change: (leaf: ReadonlyMap<string, V>) => ReadonlyMap<string, V>,
): Node<V> {
  if (level === LEVELS) return change((node as ReadonlyMap<string, V> | undefined) ?? new Map());
  const copy = [...((node as readonly (Node<V> | undefined)[] | undefined) ?? Array.from<undefined>({ length: WIDTH }))];
  const index = slotOf(hash, level);
  copy[index] = withChangedLeaf(copy[index], hash, level + 1, change);
  return copy;
}

function* leavesOf<V>(node: Node<V> | undefined, level: number): IterableIterator<ReadonlyMap<string, V>> {
  if (node === undefined) return;
  if (level === LEVELS) yield node as ReadonlyMap<string, V>;
  else for (const below of node as readonly (Node<V> | undefined)[]) yield* leavesOf(below, level + 1);
}

function slotOf(hash: number, level: number): number {
  return (hash >>> (level * BITS)) & (WIDTH - 1);
}

/** Returns the 32-bit FNV-1a hash of the text. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
