import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import type { WrittenRow } from '../../postgres/database/table.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LatestRows } from '../../eventsourcing/projections/tables/latest-rows.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { accountNotFound, DEFAULT_COMPUTERS } from './aggregate/accounts.decider.ts';
import type { AccountEvent } from './aggregate/accounts.events.ts';
import { GetAccount, GetWrittenAccount, ListAccounts } from './accounts.queries.ts';
import { accountCredentialsTable, type AccountRow, accountsTable } from './accounts.table.ts';

type WrittenAccount = WrittenRow<typeof accountsTable>;

/** Every account with its plan and how much of it is used. */
export const accountsProjection: Projection<typeof accountsTable> = {
  name: 'accounts',
  version: 2,
  filter: { eventClass: 'core', categories: ['account'] },
  table: accountsTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const account_id = idOf(stored.stream);
    const row = changedBy(stored as unknown as AccountEvent, rows.get(account_id), account_id, stored.at);
    if (row !== undefined) rows.set(account_id, row);
  },
};

function changedBy(
  event: AccountEvent,
  row: WrittenAccount | undefined,
  account_id: string,
  created_at: string,
): WrittenAccount | undefined {
  if (event.type === 'AccountOpened') {
    const { name, role } = event.data;
    return {
      account_id,
      name,
      role,
      plan_name: null,
      plan_seats: null,
      plan_computers: null,
      payment_method: false,
      seats_used: 0,
      computers_used: 0,
      created_at,
    };
  }
  if (row === undefined) return undefined;
  switch (event.type) {
    case 'PlanAssigned': {
      const { plan, seats, payment_method, computers = DEFAULT_COMPUTERS } = event.data;
      return { ...row, plan_name: plan, plan_seats: seats, plan_computers: computers, payment_method };
    }
    case 'SeatTaken':
      return { ...row, seats_used: row.seats_used + 1 };
    case 'SeatReleased':
      return { ...row, seats_used: row.seats_used - 1 };
    case 'ComputerSeatTaken':
      return { ...row, computers_used: row.computers_used + 1 };
    case 'ComputerSeatReleased':
      return { ...row, computers_used: row.computers_used - 1 };
    case 'FirstMonthCharged':
    case 'SignedIn':
    case 'SignedOut':
      return undefined;
    default:
      event satisfies never;
      return undefined;
  }
}

const credentialRows = entityOf('account_credentials', accountCredentialsTable);
const accountRows = entityOf(tableOf(accountsProjection), accountsTable, { credential: credentialRows });

@QueryHandler(GetAccount)
export class GetAccountHandler implements IQueryHandler<GetAccount> {
  constructor(private readonly database: Database) {}

  async execute({ accountId }: GetAccount): Promise<AccountRow> {
    const row = await this.database.dataSource
      .getRepository(accountRows)
      .findOne({ where: { account_id: accountId }, relations: { credential: true } });
    if (row === null) throw accountNotFound();
    return row;
  }
}

@QueryHandler(GetWrittenAccount)
export class GetWrittenAccountHandler implements IQueryHandler<GetWrittenAccount> {
  constructor(
    private readonly database: Database,
    private readonly latest: LatestRows,
  ) {}

  async execute({ accountId }: GetWrittenAccount): Promise<AccountRow> {
    const [{ row }, credential] = await Promise.all([
      this.latest.find(accountsProjection, `account-${accountId}`),
      this.database.dataSource.getRepository(credentialRows).findOneBy({ account_id: accountId }),
    ]);
    if (row === undefined) throw accountNotFound();
    return { ...row, credential };
  }
}

@QueryHandler(ListAccounts)
export class ListAccountsHandler implements IQueryHandler<ListAccounts> {
  constructor(private readonly database: Database) {}

  execute(page: ListAccounts): Promise<AccountRow[]> {
    const query = this.database.dataSource
      .getRepository(accountRows)
      .createQueryBuilder('account')
      .leftJoinAndSelect('account.credential', 'credential');
    return newestFirst(query, ['account.created_at', 'account.account_id'], page).getMany();
  }
}
