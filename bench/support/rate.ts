import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';

/** The ticks of the kernel's clock in a second, as /proc counts them. */
const TICKS_PER_SECOND = 100;

export interface Target {
  url: string;
  pid: number;
  headers: Record<string, string>;
}

export interface Rate {
  perSecond: number;
  /** The processor time of the answering process for one request; NaN without /proc. */
  cpuMs: number;
}

/** Runs callers, each on its own connection and waiting for its response before the next request, for the time in ms. */
export async function rateOf(
  target: Target,
  callers: number,
  ms: number,
  ask: (caller: number) => [string, string, object?],
): Promise<Rate> {
  const connections = new Agent({ keepAlive: true, maxSockets: callers });
  const [began, cpuBefore] = [performance.now(), await cpuMsOf(target.pid)];
  let count = 0;
  const work = async (caller: number) => {
    for (; performance.now() - began < ms; count += 1) await call(target, connections, ...ask(caller));
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => work(caller)));
  const [took, cpu] = [performance.now() - began, (await cpuMsOf(target.pid)) - cpuBefore];
  connections.destroy();
  return { perSecond: (count * 1_000) / took, cpuMs: cpu / count };
}

/** Sends one request. Throws if the response is no success. */
function call({ url, headers }: Target, agent: Agent, method: string, path: string, body?: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = request(`${url}${path}`, { method, headers: { ...headers, 'content-type': 'application/json' }, agent }, (answer) => {
      answer.resume().on('end', () => {
        if ((answer.statusCode ?? 500) < 300) resolve();
        else reject(new Error(`${method} ${path} was answered with ${answer.statusCode}`));
      });
    });
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (stat === null) return NaN;
  // The program's name, in brackets, may contain blanks.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / TICKS_PER_SECOND;
}
