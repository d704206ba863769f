import { Node, Yallist } from 'yallist';

interface Line<Item> {
  account: string;
  /** The items enqueued with `ahead`, which are dequeued before the rest of the line. */
  ahead: Yallist<Item>;
  behind: Yallist<Item>;
  /** The line's node in the list of turns; null while the line has no items, or is paused. */
  turn: Node<Line<Item>> | null;
  paused: boolean;
}

/** The place of a waiting item, to remove it by. */
export interface Place<Item> {
  readonly item: Item;
  readonly account: string;
  readonly ahead: boolean;
  readonly node: Node<Item>;
}

/**
 * Keeps waiting items in a line for each account. The accounts take turns, one item each, in the order in which they came, as do the items
 * within a line. Every operation takes constant time, however many items wait.
 */
export class FairQueue<Item> {
  private readonly lines = new Map<string, Line<Item>>();
  private readonly turns = new Yallist<Line<Item>>();
  private waiting = 0;

  /** The number of waiting items, including those of paused accounts. */
  get size(): number {
    return this.waiting;
  }

  /** Returns true if `dequeue` would return an item. */
  get isReady(): boolean {
    return this.turns.length > 0;
  }

  /** Returns the number of the account's waiting items. */
  sizeOf(account: string): number {
    const line = this.lines.get(account);
    return line === undefined ? 0 : line.ahead.length + line.behind.length;
  }

  /** Adds the item as the last of its account, or as the last of those that are ahead of the rest of the account. */
  enqueue(account: string, item: Item, ahead = false): Place<Item> {
    const line = this.lineOf(account);
    const node = new Node(item);
    (ahead ? line.ahead : line.behind).pushNode(node);
    this.waiting += 1;
    this.settle(line);
    return { item, account, ahead, node };
  }

  /** Removes an item that has not been dequeued yet; does nothing if it has. */
  remove({ account, node }: Place<Item>): void {
    const line = this.lines.get(account);
    if (node.list === undefined || line === undefined) return;
    node.list.removeNode(node);
    this.waiting -= 1;
    this.settle(line);
  }

  /** Returns the next item, which stays in its place. */
  peek(): Item | undefined {
    const line = this.turns.head?.value;
    return line === undefined ? undefined : firstOf(line)?.value;
  }

  /** Removes and returns the next item, of the account whose turn it is. */
  dequeue(): Item | undefined {
    const line = this.turns.shift();
    if (line === undefined) return undefined;
    line.turn = null;
    const node = firstOf(line) as Node<Item>;
    node.list?.removeNode(node);
    this.waiting -= 1;
    // The account goes to the end of the turns.
    this.settle(line);
    return node.value;
  }

  /** Pauses the account: it keeps its items, but has no turn. */
  pause(account: string): void {
    const line = this.lineOf(account);
    line.paused = true;
    this.settle(line);
  }

  /** Lets a paused account have turns again, after those of the others. */
  resume(account: string): void {
    const line = this.lines.get(account);
    if (line === undefined) return;
    line.paused = false;
    this.settle(line);
  }

  /** Returns the first items of each account; the oldest item is among them. Takes time in proportion to the accounts. */
  *heads(): Iterable<Item> {
    for (const { ahead, behind } of this.lines.values()) {
      if (ahead.head !== undefined) yield ahead.head.value;
      if (behind.head !== undefined) yield behind.head.value;
    }
  }

  private lineOf(account: string): Line<Item> {
    const found = this.lines.get(account);
    if (found !== undefined) return found;
    const line: Line<Item> = { account, ahead: new Yallist(), behind: new Yallist(), turn: null, paused: false };
    this.lines.set(account, line);
    return line;
  }

  /** Gives the account a turn if an item may be dequeued from it, takes the turn away if not, and drops the line if it is empty and not paused. */
  private settle(line: Line<Item>): void {
    const isEmpty = line.ahead.length + line.behind.length === 0;
    const hasTurn = !isEmpty && !line.paused;
    if (hasTurn && line.turn === null) {
      line.turn = new Node(line);
      this.turns.pushNode(line.turn);
    } else if (!hasTurn && line.turn !== null) {
      this.turns.removeNode(line.turn);
      line.turn = null;
    }
    if (isEmpty && !line.paused) this.lines.delete(line.account);
  }
}

function firstOf<Item>({ ahead, behind }: Line<Item>): Node<Item> | undefined {
  return ahead.head ?? behind.head;
}
