import { Node, Yallist } from 'yallist';

interface Group<Item> {
  name: string;
  /** The items added with `ahead`, which are taken before the rest of the group. */
  ahead: Yallist<Item>;
  behind: Yallist<Item>;
  /** The group's node in the list of turns; null while the group has no items, or is paused. */
  turn: Node<Group<Item>> | null;
  paused: boolean;
}

/** The place of a waiting item, to remove it by. */
export interface Place<Item> {
  readonly item: Item;
  readonly group: string;
  readonly ahead: boolean;
  readonly node: Node<Item>;
}

/**
 * Keeps waiting items in groups. The groups take turns, one item each, in the order in which they were added, as do the items within a
 * group. Every operation takes constant time.
 */
export class RoundRobin<Item> {
  private readonly groups = new Map<string, Group<Item>>();
  private readonly turns = new Yallist<Group<Item>>();
  private waiting = 0;

  /** The number of waiting items, including those of paused groups. */
  get size(): number {
    return this.waiting;
  }

  /** Returns true if `take` would return an item. */
  get isReady(): boolean {
    return this.turns.length > 0;
  }

  /** Adds the item as the last of its group, or as the last of those that are ahead of the rest of the group. */
  add(group: string, item: Item, ahead = false): Place<Item> {
    const found = this.groupOf(group);
    const node = new Node(item);
    (ahead ? found.ahead : found.behind).pushNode(node);
    this.waiting += 1;
    this.settle(found);
    return { item, group, ahead, node };
  }

  /** Removes an item that has not been taken yet; does nothing if it has. */
  remove({ group, node }: Place<Item>): void {
    const found = this.groups.get(group);
    if (node.list === undefined || found === undefined) return;
    node.list.removeNode(node);
    this.waiting -= 1;
    this.settle(found);
  }

  /** Takes the next item, from the group whose turn it is. */
  take(): Item | undefined {
    const group = this.turns.shift();
    if (group === undefined) return undefined;
    group.turn = null;
    const node = (group.ahead.head ?? group.behind.head) as Node<Item>;
    node.list?.removeNode(node);
    this.waiting -= 1;
    // The group goes to the end of the turns.
    this.settle(group);
    return node.value;
  }

  /** Pauses the group: it keeps its items, but has no turn. */
  pause(group: string): void {
    const found = this.groupOf(group);
    found.paused = true;
    this.settle(found);
  }

  resume(group: string): void {
    const found = this.groups.get(group);
    if (found === undefined) return;
    found.paused = false;
    this.settle(found);
  }

  /** Returns the first item of each list of each group; the oldest item is among them. Takes time in proportion to the groups. */
  *heads(): Iterable<Item> {
    for (const { ahead, behind } of this.groups.values()) {
      if (ahead.head !== undefined) yield ahead.head.value;
      if (behind.head !== undefined) yield behind.head.value;
    }
  }

  private groupOf(name: string): Group<Item> {
    const found = this.groups.get(name);
    if (found !== undefined) return found;
    const group: Group<Item> = { name, ahead: new Yallist(), behind: new Yallist(), turn: null, paused: false };
    this.groups.set(name, group);
    return group;
  }

  /** Adds the group to the turns if an item may be taken from it, removes it if not, and forgets it if it is empty and not paused. */
  private settle(group: Group<Item>): void {
    const isEmpty = group.ahead.length + group.behind.length === 0;
    const hasTurn = !isEmpty && !group.paused;
    if (hasTurn && group.turn === null) {
      group.turn = new Node(group);
      this.turns.pushNode(group.turn);
    } else if (!hasTurn && group.turn !== null) {
      this.turns.removeNode(group.turn);
      group.turn = null;
    }
    if (isEmpty && !group.paused) this.groups.delete(group.name);
  }
}
