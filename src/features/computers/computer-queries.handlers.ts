import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { ReadModels, tableOf } from '../../eventsourcing/projections/projection.ts';
import { computerNotFound } from './aggregate/computers.errors.ts';
import { computersProjection } from './rows/computers.projection.ts';
import { GetComputer, ListComputers } from './computers.queries.ts';
import type { ComputerView } from './rows/computers.table.ts';

/** Selects the columns that are shown. A computer whose deletion was requested is not found. */
const SELECT = `
  select c.computer_id, c.state, c.revision, c.created_at, c.updated_at, v.last_active_at
    from ${tableOf(computersProjection)} c left join agent_activity v on v.agent_id = 'computer-' || c.computer_id
   where c.account_id = $1 and c.status <> 'deleting'`;

@QueryHandler(GetComputer)
export class GetComputerHandler implements IQueryHandler<GetComputer> {
  constructor(
    private readonly database: Database,
    private readonly readModels: ReadModels,
  ) {}

  async execute({ accountId, computerId }: GetComputer): Promise<ComputerView> {
    const { rows } = await this.database.pool.query<ComputerView>({
      name: 'computer',
      text: `${SELECT} and c.computer_id = $2`,
      values: [accountId, computerId],
    });
    const [row] = rows;
    if (row !== undefined) return row;
    await this.readModels.waitUntilFilled(computersProjection.name);
    throw computerNotFound();
  }
}

@QueryHandler(ListComputers)
export class ListComputersHandler implements IQueryHandler<ListComputers> {
  constructor(private readonly database: Database) {}

  execute({ accountId, chosen, limit, after }: ListComputers): Promise<ComputerView[]> {
    const values: unknown[] = [accountId];
    const given = (value: unknown) => `$${values.push(value)}`;
    const conditions = [
      ...(chosen.endUserId === null ? [] : [`c.end_user_id = ${given(chosen.endUserId)}`]),
      ...(chosen.status === null ? [] : [`c.status = ${given(chosen.status)}`]),
      ...(after === null ? [] : [`(c.created_at, c.computer_id) < (${given(after[0])}::timestamptz, ${given(after[1])})`]),
    ];
    const text = [SELECT, ...conditions].join(' and ');
    return this.database.query<ComputerView & Record<string, unknown>>(
      `${text} order by c.created_at desc, c.computer_id desc limit ${given(limit)}`,
      values,
    );
  }
}
