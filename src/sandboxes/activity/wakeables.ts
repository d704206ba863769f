import { Injectable } from '@nestjs/common';

import { kindOf, type SandboxKind } from '../sandbox-id.ts';
import type { Wakeable } from './wakeable.ts';

/** Knows the kinds of sandboxes that can be woken. */
@Injectable()
export class Wakeables {
  private readonly byKind = new Map<SandboxKind, Wakeable>();

  register(wakeable: Wakeable): void {
    this.byKind.set(wakeable.kind, wakeable);
  }

  /** Returns the kind of the sandbox with the id. */
  of(sandboxId: string): Wakeable {
    const kind = kindOf(sandboxId);
    const wakeable = this.byKind.get(kind);
    if (wakeable === undefined) throw new Error(`no feature wakes sandboxes of the kind ${kind}`);
    return wakeable;
  }
}
