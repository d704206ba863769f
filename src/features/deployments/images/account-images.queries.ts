import { Query } from '@nestjs/cqrs';

/** Returns whether one of the account's deployments has used the image with this digest or id. The newest deployments may be missing. */
export class AccountHasImage extends Query<boolean> {
  constructor(
    readonly accountId: string,
    readonly image: string,
  ) {
    super();
  }
}
