import { DesktopUnreachable } from '../rfb/desktop-errors.ts';

/** A resource that is opened at the first use, once for all callers, and opened again after it has ended. */
export class ReopeningResource<T> {
  private opened: Promise<T> | null = null;
  private latest: T | null = null;

  constructor(
    private readonly open: () => Promise<T>,
    private readonly isOpen: (value: T) => boolean,
  ) {}

  /** Returns the resource that is open or being opened; null if there is none. It never rejects. */
  get current(): Promise<T | null> {
    return this.opened?.catch(() => null) ?? Promise.resolve(null);
  }

  /** The open resource; null if there is none, or it is still being opened. */
  get value(): T | null {
    return this.latest !== null && this.isOpen(this.latest) ? this.latest : null;
  }

  /** Returns the resource, and opens it if needed. Throws what opening it throws, and `DesktopUnreachable` if it has ended immediately. */
  async get(): Promise<T> {
    for (;;) {
      const isNew = this.opened === null;
      const opened = (this.opened ??= this.open());
      const value = await opened.catch((error: unknown) => {
        this.clearIfCurrent(opened);
        throw error;
      });
      this.latest = value;
      if (this.isOpen(value)) return value;
      this.clearIfCurrent(opened);
      if (isNew) throw new DesktopUnreachable('the connection was closed');
    }
  }

  /** Returns the current resource and detaches it. The next `get` opens another one. */
  detach(): Promise<T | null> {
    const { current } = this;
    this.opened = null;
    this.latest = null;
    return current;
  }

  private clearIfCurrent(opened: Promise<T>): void {
    if (this.opened === opened) this.opened = null;
  }
}
