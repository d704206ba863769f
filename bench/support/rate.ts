import { Agent, request } from 'node:http';

import { cpuMs, machineCpuMs, percentile } from './figures.ts';

export interface Target {
  url: string;
  pid: number;
  headers: Record<string, string>;
}

export interface Rate {
  count: number;
  perSecond: number;
  /** The processor time (in ms) of the answering process for one request. */
  cpuMs: number;
  /** The processor time (in ms) of the whole machine for one request: of the callers, the answering process and its database. */
  machineMs: number;
  /** The median and the 95th percentile of the time that a request takes, in ms. */
  p50Ms: number;
  p95Ms: number;
}

/** The method, the path and the body of a request. */
export type Asked = [string, string, object?];

/**
 * Runs callers, each on its own connection and waiting for its response before the next request, for the time in ms. `ask` may wait before a
 * request.
 */
export async function rateOf(target: Target, callers: number, ms: number, ask: (caller: number) => Asked | Promise<Asked>): Promise<Rate> {
  const connections = new Agent({ keepAlive: true, maxSockets: callers });
  const [began, cpuBefore, machineBefore] = [performance.now(), cpuMs(target.pid), machineCpuMs()];
  const times: number[] = [];
  const work = async (caller: number) => {
    while (performance.now() - began < ms) {
      const asked = await ask(caller);
      const sent = performance.now();
      await call(target, connections, ...asked);
      times.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => work(caller)));
  const [took, cpu, machine] = [performance.now() - began, cpuMs(target.pid) - cpuBefore, machineCpuMs() - machineBefore];
  connections.destroy();
  const count = times.length;
  const [p50Ms, p95Ms] = [percentile(times, 0.5), percentile(times, 0.95)];
  return { count, perSecond: (count * 1_000) / took, cpuMs: cpu / count, machineMs: machine / count, p50Ms, p95Ms };
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
