import { Query } from '@nestjs/cqrs';

import type { Source } from './source-credentials.decider.ts';

/** A decrypted credential, for the engine or for Git only. */
export interface OpenedCredential {
  username: string;
  password: string;
}

/** Decrypts the account's credential for exactly this host and records its use; null if there is none. */
export class OpenSourceCredential extends Query<OpenedCredential | null> {
  constructor(
    readonly accountId: string,
    readonly source: Source,
  ) {
    super();
  }
}
