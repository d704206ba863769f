import { Query } from '@nestjs/cqrs';

/** Returns the time at which the sandbox was last used; null if it never was. */
export class GetLastUse extends Query<Date | null> {
  constructor(readonly sandboxId: string) {
    super();
  }
}
