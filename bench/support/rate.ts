import { Agent, request } from 'node:http';

import { cpuMs, machineCpuMs } from './figures.ts';

export interface Target {
  url: string;
  pid: number;
  headers: Record<string, string>;
}

export interface Rate {
  perSecond: number;
  /** The processor time (ms) of the answering process for one request. */
  cpuMs: number;
  /** The processor time (ms) of the whole machine for one request: of the callers, the answering process and its database. */
  machineMs: number;
}

/** Runs callers, each on its own connection and waiting for its response before the next request, for the time in ms. */
export async function rateOf(
  target: Target,
  callers: number,
  ms: number,
  ask: (caller: number) => [string, string, object?],
): Promise<Rate> {
  const connections = new Agent({ keepAlive: true, maxSockets: callers });
  const [began, cpuBefore, machineBefore] = [performance.now(), cpuMs(target.pid), machineCpuMs()];
  let count = 0;
  const work = async (caller: number) => {
    for (; performance.now() - began < ms; count += 1) await call(target, connections, ...ask(caller));
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => work(caller)));
  const [took, cpu, machine] = [performance.now() - began, cpuMs(target.pid) - cpuBefore, machineCpuMs() - machineBefore];
  connections.destroy();
  return { perSecond: (count * 1_000) / took, cpuMs: cpu / count, machineMs: machine / count };
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
