const BITS = 5;
const WIDTH = 1 << BITS;
const LEVELS = 6;

type Node<V> = readonly (Node<V> | undefined)[] | ReadonlyMap<string, V>;

/**
 * A map whose changes make a new map and share nearly all of the old one: states are kept and shared between calls, and an
 * account may have 100 000 seats. A change copies six arrays of 32, not the whole map.
 */
export class SeatMap<V> {
  private constructor(
    private readonly root: Node<V> | undefined,
    readonly size: number,
  ) {}

  static empty<V>(): SeatMap<V> {
    return new SeatMap<V>(undefined, 0);
  }

  get(key: string): V | undefined {
    const hash = hashOf(key);
    let node = this.root;
    for (let level = 0; level < LEVELS && node !== undefined; level += 1) node = (node as readonly Node<V>[])[slot(hash, level)];
    return (node as ReadonlyMap<string, V> | undefined)?.get(key);
  }

  set(key: string, value: V): SeatMap<V> {
    const grown = this.get(key) === undefined ? 1 : 0;
    return new SeatMap(
      changed(this.root, hashOf(key), 0, (leaf) => new Map(leaf).set(key, value)),
      this.size + grown,
    );
  }

  delete(key: string): SeatMap<V> {
    if (this.get(key) === undefined) return this;
    const without = (leaf: ReadonlyMap<string, V>) => new Map([...leaf].filter(([other]) => other !== key));
    return new SeatMap(changed(this.root, hashOf(key), 0, without), this.size - 1);
  }
}

function changed<V>(
  node: Node<V> | undefined,
  hash: number,
  level: number,
  change: (leaf: ReadonlyMap<string, V>) => ReadonlyMap<string, V>,
): Node<V> {
  if (level === LEVELS) return change((node as ReadonlyMap<string, V> | undefined) ?? new Map());
  const copy = [...((node as readonly (Node<V> | undefined)[] | undefined) ?? Array.from<undefined>({ length: WIDTH }))];
  const index = slot(hash, level);
  copy[index] = changed(copy[index], hash, level + 1, change);
  return copy;
}

function slot(hash: number, level: number): number {
  return (hash >>> (level * BITS)) & (WIDTH - 1);
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
