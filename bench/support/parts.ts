import { ScaleBed } from './scale-bed.ts';

/** Runs one part of a benchmark, or all of them, and prints the figures of each as soon as it is done. */
export async function runParts(benchmark: string, parts: Record<string, () => Promise<object>>, part?: string): Promise<object> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void ScaleBed.disposeAll().finally(() => process.exit(1)));
  const asked = part === undefined ? Object.keys(parts) : [part];
  const figures: Record<string, object> = {};
  for (const name of asked) {
    const measure = parts[name];
    if (measure === undefined) throw new Error(`${benchmark} has no part ${name}; there are ${Object.keys(parts).join(', ')}`);
    figures[name] = await measure();
    console.log(name, JSON.stringify(figures[name], null, 1));
  }
  return figures;
}
