/** The desktop can't be reached, or what it sends breaks the protocol. */
export class DesktopUnreachable extends Error {
  readonly code = 'desktop_unreachable';

  constructor(reason: string) {
    super(`The desktop can't be reached: ${reason}.`);
    this.name = 'DesktopUnreachable';
  }
}

/** The desktop is connected and does not answer. */
export class DesktopTimeout extends Error {
  readonly code = 'desktop_timeout';

  constructor(what: string, ms: number) {
    super(`The desktop sent no ${what} within ${ms / 1000} s.`);
    this.name = 'DesktopTimeout';
  }
}

/** The screen has become larger than what there is room for; there may be more room. */
export class ScreenGrew extends Error {
  constructor() {
    super('The screen has become larger.');
    this.name = 'ScreenGrew';
  }
}
