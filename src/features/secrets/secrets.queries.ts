import { Query } from '@nestjs/cqrs';

import type { SecretUsers } from './secrets.decider.ts';

/** Counts the agents that use each of the account's secrets, by the secret's name. A secret that no agent uses is left out. */
export class CountSecretUsers extends Query<ReadonlyMap<string, number>> {
  constructor(readonly accountId: string) {
    super();
  }
}

/** Finds the agents whose variables take their values from the secret. */
export class FindSecretUsers extends Query<SecretUsers> {
  constructor(
    readonly accountId: string,
    readonly name: string,
  ) {
    super();
  }
}
