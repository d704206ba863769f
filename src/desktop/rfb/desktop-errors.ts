/** The desktop can't be reached, or it violates the protocol. */
export class DesktopUnreachable extends Error {
  readonly code = 'desktop_unreachable';

  constructor(reason: string) {
    super(`The desktop can't be reached: ${reason}.`);
    this.name = 'DesktopUnreachable';
  }
}

/** The desktop is connected but does not answer. */
export class DesktopTimeout extends Error {
  readonly code = 'desktop_timeout';

  constructor(what: string, ms: number) {
    super(`The desktop sent no ${what} within ${ms / 1000} s.`);
    this.name = 'DesktopTimeout';
  }
}

/** The screen has become larger than the reserved memory. More memory may be available. */
export class ScreenGrew extends Error {
  constructor() {
    super('The screen has become larger.');
    this.name = 'ScreenGrew';
  }
}
