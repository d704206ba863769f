/**
 * Lets plain Node 20 run a TypeScript file of this repository: `node --import ./scripts/typescript.mjs file.ts`.
 * It compiles with the settings of .swcrc and checks no types; tests, benchmarks and child processes of tests are started this way.
 */
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';

// Node calls load() in its own hooks thread, which imports this file again.
if (isMainThread) register(import.meta.url);

const swcrc = JSON.parse(await readFile(new URL('../.swcrc', import.meta.url), 'utf8'));

/** @type {import('node:module').LoadHook} */
export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
  const { transform } = await import('@swc/core');
  const filename = fileURLToPath(url);
  const { code } = await transform(await readFile(filename, 'utf8'), { ...swcrc, swcrc: false, filename, sourceMaps: 'inline' });
  return { format: 'module', source: code, shortCircuit: true };
}
