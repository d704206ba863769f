import { DesktopUnreachable } from '../rfb/desktop-errors.ts';

/** Something that is opened when it is first needed, by one caller for all, and anew when it has ended. */
export class Reopened<T> {
  private opened: Promise<T> | null = null;
  private latest: T | null = null;

  constructor(
    private readonly open: () => Promise<T>,
    private readonly isOpen: (value: T) => boolean,
  ) {}

  /** Returns what is open, or is being opened; null if nothing is. It never rejects. */
  get current(): Promise<T | null> {
    return this.opened?.catch(() => null) ?? Promise.resolve(null);
  }

  /** The value that is open now; null if nothing is, or it is being opened. */
  get value(): T | null {
    return this.latest !== null && this.isOpen(this.latest) ? this.latest : null;
  }

  /** Throws what opening it throws, and `DesktopUnreachable` if it has ended at once. */
  async get(): Promise<T> {
    for (;;) {
      const isNew = this.opened === null;
      const opened = (this.opened ??= this.open());
      const value = await opened.catch((error: unknown) => {
        this.drop(opened);
        throw error;
      });
      this.latest = value;
      if (this.isOpen(value)) return value;
      this.drop(opened);
      if (isNew) throw new DesktopUnreachable('the connection was closed');
    }
  }

  /** Returns what was current. The next `get` opens another one. */
  forget(): Promise<T | null> {
    const { current } = this;
    this.opened = null;
    this.latest = null;
    return current;
  }

  private drop(opened: Promise<T>): void {
    if (this.opened === opened) this.opened = null;
  }
}
