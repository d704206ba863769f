/**
 * Lets plain Node 20 run a TypeScript file of this repository: `node --import ./scripts/typescript.mjs file.ts`, in worker threads too.
 * It compiles with the settings of .swcrc and checks no types; tests, benchmarks and child processes of tests are started this way.
 */
import { register } from 'node:module';

register('./typescript-hooks.mjs', import.meta.url);
