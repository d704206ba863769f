/** Compiles TypeScript as Node loads it: see typescript.mjs, which has Node call this in a thread of its own. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const swcrc = JSON.parse(await readFile(new URL('../.swcrc', import.meta.url), 'utf8'));

/** @type {import('node:module').LoadHook} */
export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
  const { transform } = await import('@swc/core');
  const filename = fileURLToPath(url);
  const { code } = await transform(await readFile(filename, 'utf8'), { ...swcrc, swcrc: false, filename, sourceMaps: 'inline' });
  return { format: 'module', source: code, shortCircuit: true };
}
