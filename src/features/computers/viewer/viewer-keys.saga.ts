import { Injectable, type OnModuleInit } from '@nestjs/common';

import { apiKeysProjection } from '../../api-keys/index.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { Database } from '../../../postgres/database/database.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { ReadModels, tableOf } from '../../../eventsourcing/projections/projection.ts';
import { type Saga, type SagaKey, type SagaPass, Sagas } from '../../../eventsourcing/sagas/saga.ts';
import { sagaStep } from '../../../eventsourcing/sagas/saga-step.ts';
import { viewerSessionsProjection } from './viewer-sessions.projection.ts';
import { ViewerSessions } from './viewer-sessions.service.ts';
import { IS_OPEN } from './viewer-sessions.table.ts';

const SESSIONS = tableOf(viewerSessionsProjection);
const OF_KEY = `select session_id, computer_id, account_id from ${SESSIONS} where key_id = $1 and ${IS_OPEN} limit $2`;
const LEFT = `select distinct s.key_id as key, s.account_id as account
  from ${SESSIONS} s join ${tableOf(apiKeysProjection)} k on k.key_id = s.key_id
  where s.key_id is not null and ${IS_OPEN} and (k.revoked_at is not null or k.expired_at is not null)`;
const PAGE = 500;

interface OpenSession extends Record<string, unknown> {
  session_id: string;
  computer_id: string;
  account_id: string;
}

/** Ends the sessions whose links were made with an API key that was revoked or has expired, so that no link outlives the key. */
@Injectable()
export class ViewerKeysSaga implements Saga, OnModuleInit {
  readonly name = 'viewer-keys';
  readonly filter = { eventClass: 'core' as const, categories: ['apiKey'], types: ['ApiKeyRevoked', 'ApiKeyExpired'] };
  readonly concurrency = 4;

  constructor(
    private readonly sagas: Sagas,
    private readonly sessions: ViewerSessions,
    private readonly readModels: ReadModels,
    private readonly follower: LogFollower,
    private readonly database: Database,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  /** Also finds a session that was created by a request during the revocation of its key. */
  resync(): Promise<SagaKey[]> {
    return this.database.query<{ key: string; account: string }>(LEFT);
  }

  async reconcile(keyId: string, pass: SagaPass): Promise<Date | null> {
    for (;;) {
      await this.readModels.waitFor(viewerSessionsProjection.name, this.follower.position);
      const open = await this.database.query<OpenSession>(OF_KEY, [keyId, PAGE]);
      for (const computerId of new Set(open.map(({ computer_id }) => computer_id)))
        await this.end(
          computerId,
          open.filter(({ computer_id }) => computer_id === computerId),
          pass,
        );
      if (open.length < PAGE) return null;
    }
  }

  private async end(computerId: string, sessions: OpenSession[], { assertLease, setAccount }: SagaPass): Promise<void> {
    const accountId = sessions[0]?.account_id ?? '';
    setAccount(accountId);
    assertLease();
    const ids = sessions.map(({ session_id }) => session_id);
    await this.sessions.end(computerId, ids, 'revoked', systemContext(this.name, accountId));
    sagaStep(this.name, computerId, 'ended');
  }
}
