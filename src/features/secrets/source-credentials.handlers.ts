import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { type OpenedCredential, OpenSourceCredential } from './source-credentials.queries.ts';
import { AccountSourceCredentials } from './account-source-credentials.service.ts';

@QueryHandler(OpenSourceCredential)
export class OpenSourceCredentialHandler implements IQueryHandler<OpenSourceCredential> {
  constructor(private readonly credentials: AccountSourceCredentials) {}

  execute({ accountId, source }: OpenSourceCredential): Promise<OpenedCredential | null> {
    return this.credentials.use(accountId, source);
  }
}
