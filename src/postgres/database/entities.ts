import { EntitySchema, type ObjectLiteral, type SelectQueryBuilder } from 'typeorm';

import type { Column, ReadRow, Table } from './table.ts';

/** The entities of this program. A file that declares one adds it when it is imported, as TypeORM's decorators would. */
export const entities: EntitySchema[] = [];

type Joined = Record<string, EntitySchema>;
type JoinedRows<Others extends Joined> = {
  [Member in keyof Others]: (Others[Member] extends EntitySchema<infer Row> ? Row : never) | null;
};

/**
 * Returns the entity by which TypeORM reads the table of that name. A query can join each of `others` by the key, which must have the same
 * name there; their rows are then members of the row, or null.
 */
// oxlint-disable-next-line typescript/no-generated-empty-object-type -- a table that joins no other has no such members
export function entityOf<T extends Table, Others extends Joined = Record<never, EntitySchema>>(
  name: string,
  { key, columns }: T,
  others?: Others,
): EntitySchema<ReadRow<T> & JoinedRows<Others>> {
  const ofColumn = ([column, sql]: [string, Column]) => [
    column,
    { type: /^[a-z]+/.exec(sql)?.[0], primary: column === key, nullable: !sql.endsWith('not null') },
  ];
  const joinColumn = { name: key, referencedColumnName: key };
  const ofOther = ([member, target]: [string, EntitySchema]) => [
    member,
    { type: 'one-to-one', target, joinColumn, nullable: true, createForeignKeyConstraints: false },
  ];
  const entity = new EntitySchema<ReadRow<T> & JoinedRows<Others>>({
    name,
    tableName: name,
    synchronize: false,
    columns: Object.fromEntries(Object.entries(columns).map(ofColumn)),
    relations: Object.fromEntries(Object.entries(others ?? {}).map(ofOther)),
  });
  entities.push(entity);
  return entity;
}

/**
 * Selects one page of the rows, newest first by a column of times, then by a column of ids. `after` has the two values of the previous
 * page's last row; null selects the first page.
 */
export function newestFirst<Row extends ObjectLiteral>(
  query: SelectQueryBuilder<Row>,
  [time, id]: [time: string, id: string],
  { limit, after }: { limit: number; after: readonly [time: string, id: string] | null },
): SelectQueryBuilder<Row> {
  query.orderBy({ [time]: 'DESC', [id]: 'DESC' }).limit(limit);
  if (after !== null) query.andWhere(`(${time}, ${id}) < (:time::timestamptz, :id)`, { time: after[0], id: after[1] });
  return query;
}
