import { randomUUID } from 'node:crypto';
import { on } from 'node:events';
import { Agent, request } from 'node:http';
import { setPriority } from 'node:os';

/** The order from the benchmark to this program. Each `{id}` in the path is another one for each request. */
export interface Asking {
  url: string;
  method: string;
  path: string;
  connections: number;
}

/** The number of responses by status, which the program reports when it is stopped. */
export type Answers = Record<string, number>;

/** Sends requests without a credential, on each connection the next one as soon as the one before has its answer, until the end. */
process.once('disconnect', () => process.exit(0));
/** The strangers must not take the processor time of those who measure. */
setPriority(19);
const orders = on(process, 'message');
const { url, method, path, connections } = await next<Asking>();
const agent = new Agent({ keepAlive: true, maxSockets: connections });
const answers: Answers = {};
const state = { isOver: false };
const asking = Promise.all(Array.from({ length: connections }, goOn));
await next();
state.isOver = true;
process.send?.(answers);
await asking;
agent.destroy();

/** Returns the next order. Orders that arrived earlier are not lost. */
async function next<T>(): Promise<T> {
  const { value } = (await orders.next()) as { value: [T] };
  return value[0];
}

async function goOn(): Promise<void> {
  while (!state.isOver) {
    const status = await ask();
    answers[status] = (answers[status] ?? 0) + 1;
  }
}

function ask(): Promise<number | 'no answer'> {
  return new Promise((resolve) => {
    const asked = request(`${url}${path.replace('{id}', randomUUID())}`, { method, agent });
    asked.on('response', (answer) => {
      answer.on('error', () => resolve('no answer'));
      answer.resume().on('end', () => resolve(answer.statusCode ?? 'no answer'));
    });
    asked.on('error', () => resolve('no answer'));
    asked.end();
  });
}
