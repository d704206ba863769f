import { Injectable } from '@nestjs/common';

import { kindOf, type SandboxKind } from '../sandbox-id.ts';
import type { FollowedKind } from './container-kind.ts';

/** Knows the kinds of sandboxes that have containers. */
@Injectable()
export class ContainerKinds {
  private readonly byKind = new Map<SandboxKind, FollowedKind>();

  register(kind: FollowedKind): void {
    this.byKind.set(kind.kind, kind);
  }

  /** Returns the kind of the sandbox with the id; null if no feature of this program has such sandboxes. */
  of(sandboxId: string): FollowedKind | null {
    return this.byKind.get(kindOf(sandboxId)) ?? null;
  }

  all(): readonly FollowedKind[] {
    return [...this.byKind.values()];
  }
}
