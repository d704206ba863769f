import { Injectable } from '@nestjs/common';

import { DurableSagas } from '../../../eventsourcing/sagas/durable-sagas.ts';
import type { SagaWorkDto } from './work.dto.ts';

/** Reports the work of the sagas of this process. */
@Injectable()
export class SagaWork {
  constructor(private readonly sagas: DurableSagas) {}

  stats(): SagaWorkDto[] {
    return Object.entries(this.sagas.stats()).map(([saga, { queued, working, aside, retrying, dropped, oldestWaitMs, topAccounts }]) => ({
      saga,
      queued: { signals: queued.signal, reminders: queued.reminder },
      working,
      aside,
      retrying,
      dropped,
      oldest_wait_ms: Math.round(oldestWaitMs),
      top_accounts: topAccounts.map(({ account, keys }) => ({ account_id: account, keys })),
    }));
  }
}
