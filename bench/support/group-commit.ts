import type pg from 'pg';

/** One message or reply, as a row of the bare relay. */
export type MessageRow = [id: string, conversationId: string, agentId: string, role: 'user' | 'agent', text: string];

export type Insert = (row: MessageRow) => Promise<unknown>;

const ONE = 'insert into messages (id, conversation_id, agent_id, role, text) values ($1, $2, $3, $4, $5)';
const MANY = `
  insert into messages (id, conversation_id, agent_id, role, text)
  select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[])`;
/** The number of statements of grouped rows that are under way at most. */
const IN_FLIGHT_MAX = 2;

/** Commits each row by itself. */
export function eachCommitted(pool: pg.Pool): Insert {
  return (values) => pool.query({ name: 'insert one', text: ONE, values });
}

/** Commits the rows that arrive while two statements are under way together, by the next one. */
export function groupCommitted(pool: pg.Pool): Insert {
  let waiting: { row: MessageRow; settle: (error?: unknown) => void }[] = [];
  let inFlight = 0;
  const send = () => {
    if (inFlight === IN_FLIGHT_MAX || waiting.length === 0) return;
    const group = waiting;
    waiting = [];
    inFlight += 1;
    const values = [0, 1, 2, 3, 4].map((column) => group.map(({ row }) => row[column]));
    const settle = (error?: unknown) => {
      inFlight -= 1;
      for (const each of group) each.settle(error);
      send();
    };
    pool.query({ name: 'insert many', text: MANY, values }).then(() => settle(), settle);
  };
  return (row) =>
    new Promise<void>((resolve, reject) => {
      waiting.push({ row, settle: (error) => (error === undefined ? resolve() : reject(error)) });
      send();
    });
}
