import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { accountNotFound, assignedPlan, openedAccount } from './aggregate/accounts.decider.ts';
import type { AccountEvent } from './aggregate/accounts.events.ts';
import { GetAccount, ListAccounts } from './accounts.queries.ts';
import { accountCredentialsTable, accountRow, type AccountRow, accountsTable, planColumns, type WrittenAccount } from './accounts.table.ts';

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
  if (event.type === 'AccountOpened') return accountRow(account_id, openedAccount(event.data), created_at);
  if (row === undefined) return undefined;
  switch (event.type) {
    case 'PlanAssigned':
      return { ...row, ...planColumns(assignedPlan(event.data)) };
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
