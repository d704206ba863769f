import { asRead, type Column, type ReadRow, type Table, typed, type WrittenRow } from './table.ts';

const boats = {
  key: 'name',
  columns: {
    name: 'text collate "C" not null',
    tons: 'integer not null',
    crew: typed<string[]>('json not null'),
    note: 'text',
    arrived_at: 'timestamptz(3) not null',
    left_at: 'timestamptz',
  },
} as const satisfies Table;

// `npm run typecheck` fails if a line below an `@ts-expect-error` has no error.
describe('the rows of a declared table', () => {
  const written: WrittenRow<typeof boats> = {
    name: 'Ark',
    tons: 5,
    crew: ['Noah'],
    note: null,
    arrived_at: '2026-01-02T03:04:05.678Z',
    left_at: null,
  };

  it('are read as they were written, with times as dates', () => {
    const read: ReadRow<typeof boats> = { ...written, arrived_at: new Date('2026-01-02T03:04:05.678Z'), left_at: null };
    expect(asRead(boats, written)).toStrictEqual(read);
    expect(asRead(boats, { ...written, left_at: written.arrived_at }).left_at).toEqual(read.arrived_at);
  });

  it('have the types that the columns have in SQL', () => {
    // @ts-expect-error -- the column is `not null`
    const withoutTons: typeof written = { ...written, tons: null };
    // @ts-expect-error -- the JSON of this column is declared
    const withOtherCrew: typeof written = { ...written, crew: 'Noah' };
    // @ts-expect-error -- the table has no such column
    const withMast: typeof written = { ...written, mast: 1 };
    // @ts-expect-error -- a column without `not null` may be null
    const note: string = written.note;
    // @ts-expect-error -- times are read as dates
    const arrivedAt: string = asRead(boats, written).arrived_at;
    // @ts-expect-error -- rows have no columns of this type
    const length: Column = 'money not null';
    expect([withoutTons, withOtherCrew, withMast, note, arrivedAt, length]).toHaveLength(6);
  });
});
