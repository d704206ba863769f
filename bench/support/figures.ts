import { readdirSync, readFileSync } from 'node:fs';

/** The kernel's ticks per second in /proc, which are always 100 for user space. */
const TICKS = 100;

export interface Summary {
  n: number;
  p50: number;
  p95: number;
  max: number;
}

/** Summarises values in ms. */
export function summary(values: readonly number[]): Summary {
  return { n: values.length, p50: percentile(values, 0.5), p95: percentile(values, 0.95), max: percentile(values, 1) };
}

export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN);
}

export function rounded(value: number, digits = 2): number {
  return Number(value.toFixed(digits));
}

/** Returns the duration of the work, in ms. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** Returns the processor time that a process has used so far, in ms. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / TICKS;
}

/** Returns the processor time that the threads of a process have used so far, in ms, finer than the ticks of `cpuMs`. */
export function threadsCpuMs(pid: number): number {
  let ns = 0;
  try {
    for (const id of readdirSync(`/proc/${pid}/task`))
      ns += Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]);
  } catch {
    // A process that has just ended, such as one of PostgreSQL's.
  }
  return ns / 1_000_000;
}

/** Returns the processor time that each child of a process has used so far, in ms. */
export function childrenCpuMs(pid: number): Map<number, number> {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  return new Map(children.map((child) => [child, threadsCpuMs(child)]));
}

/** Returns the processor time that the children of a process have used since, in ms, of those that lived all the time. */
export function childrenCpuSince(pid: number, before: ReadonlyMap<number, number>): number {
  let sum = 0;
  for (const [child, ms] of childrenCpuMs(pid)) if (before.has(child)) sum += ms - (before.get(child) ?? 0);
  return sum;
}

/** Returns the id of the process that started the process. */
export function parentOf(pid: number): number {
  return Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/** Returns the processor time that everything on the machine has used so far, in ms. */
export function machineCpuMs(): number {
  const [, user, nice, system, , , irq, softirq] = readFileSync('/proc/stat', 'utf8').split(/\s+/, 8).map(Number);
  return (([user, nice, system, irq, softirq] as number[]).reduce((sum, ticks) => sum + ticks, 0) * 1_000) / TICKS;
}

/** Returns the time, in ms, in which a process's main thread was ready to run but had no processor, because something else ran. */
export function starvedMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1_000_000;
}

/** Returns a process's memory in MB: its current size, and its peak since the start. */
export function memoryMb(pid: number): { rss: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mb = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1_024);
  return { rss: mb('VmRSS'), peak: mb('VmHWM') };
}

/** Returns the machine's load average of the last minute, which shows how reliable a figure is. */
export function machineLoad(): number {
  return Number(readFileSync('/proc/loadavg', 'utf8').split(' ')[0]);
}
