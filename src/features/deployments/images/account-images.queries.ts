import { Query } from '@nestjs/cqrs';

/** Returns true if one of the account's deployments used the image, given by its digest or id. The newest deployments may be missing. */
export class AccountHasImage extends Query<boolean> {
  constructor(
    readonly accountId: string,
    readonly image: string,
  ) {
    super();
  }
}
