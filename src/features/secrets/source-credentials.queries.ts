import { Query } from '@nestjs/cqrs';

import type { Source } from './source-credentials.decider.ts';

/** A credential in clear, for the engine or for Git only. */
export interface OpenedCredential {
  username: string;
  password: string;
}

/** Opens the account's credential for exactly this host, for a use that is about to begin and is noted; null if there is none. */
export class OpenSourceCredential extends Query<OpenedCredential | null> {
  constructor(
    readonly accountId: string,
    readonly source: Source,
  ) {
    super();
  }
}
