import { readdir } from 'node:fs/promises';

/**
 * Runs `bench/appends.ts` … for `npm run bench -- appends …`; without a name it runs all of them. `scale:idle` runs the part `idle` of
 * `bench/scale.ts`. Each prints a table, then its figures as JSON.
 */
const available = (await readdir(import.meta.dirname))
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => file.slice(0, -3))
  .toSorted();
const asked = process.argv.length > 2 ? process.argv.slice(2) : available;
for (const benchmark of asked) {
  const [name = '', part] = benchmark.split(':');
  if (!available.includes(name)) throw new Error(`no benchmark ${name}; there are ${available.join(', ')}`);
  const { run } = (await import(`./${name}.ts`)) as { run: (part?: string) => Promise<object> };
  console.log(JSON.stringify({ benchmark, ...(await run(part)) }));
}
