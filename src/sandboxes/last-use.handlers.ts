import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Activity } from './activity/activity.service.ts';
import { GetLastUse } from './last-use.queries.ts';

@QueryHandler(GetLastUse)
export class GetLastUseHandler implements IQueryHandler<GetLastUse> {
  constructor(private readonly activity: Activity) {}

  execute({ sandboxId }: GetLastUse): Promise<Date | null> {
    return this.activity.lastActiveAt(sandboxId);
  }
}
