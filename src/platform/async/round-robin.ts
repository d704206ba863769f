import { Node, Yallist } from 'yallist';

interface Group<Item> {
  name: string;
  /** What came with `ahead` is taken before the rest of its group. */
  ahead: Yallist<Item>;
  behind: Yallist<Item>;
  /** Where the group stands among those that have a turn; null while it has nothing, or is paused. */
  turn: Node<Group<Item>> | null;
  paused: boolean;
}

/** Where an item waits, to take it out again. */
export interface Place<Item> {
  readonly item: Item;
  readonly group: string;
  readonly ahead: boolean;
  readonly node: Node<Item>;
}

/**
 * Items that wait in groups. The groups take turns: one item each, in the order in which the groups came, and within a group in the order
 * in which the items came. Every operation takes the same time, however much waits.
 */
export class RoundRobin<Item> {
  private readonly groups = new Map<string, Group<Item>>();
  private readonly turns = new Yallist<Group<Item>>();
  private waiting = 0;

  /** Items that wait, also those of paused groups. */
  get size(): number {
    return this.waiting;
  }

  /** Whether `take` has something to give. */
  get isReady(): boolean {
    return this.turns.length > 0;
  }

  /** Adds the item as the last of its group, or as the last of those that go ahead of the rest of the group. */
  add(group: string, item: Item, ahead = false): Place<Item> {
    const found = this.groupOf(group);
    const node = new Node(item);
    (ahead ? found.ahead : found.behind).pushNode(node);
    this.waiting += 1;
    this.settle(found);
    return { item, group, ahead, node };
  }

  /** Takes an item out that has not had its turn; nothing happens where it has. */
  remove({ group, node }: Place<Item>): void {
    const found = this.groups.get(group);
    if (node.list === undefined || found === undefined) return;
    node.list.removeNode(node);
    this.waiting -= 1;
    this.settle(found);
  }

  /** The next item, of the group whose turn it is. */
  take(): Item | undefined {
    const group = this.turns.shift();
    if (group === undefined) return undefined;
    group.turn = null;
    const node = (group.ahead.head ?? group.behind.head) as Node<Item>;
    node.list?.removeNode(node);
    this.waiting -= 1;
    // The group stands at the end now.
    this.settle(group);
    return node.value;
  }

  /** A paused group keeps its items, and has no turn. */
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

  /** The first item of each list of each group; the oldest item is among them. Takes time in proportion to the groups. */
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

  /** Gives the group a turn where it has something to give, and forgets it where nothing is left to know about it. */
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
