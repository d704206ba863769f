import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const root = resolve(import.meta.dirname, '../..');

/** Runs the tool as its users do, on a data folder, and returns its output. */
export async function runOperation(name: 'backup' | 'restore', dataDir: string, ...words: string[]): Promise<string> {
  const kept = Object.entries(process.env).filter(([variable]) => !/^(MOORING_|DATABASE_URL|NODE_OPTIONS|NODE_ENV)/.test(variable));
  const env = { ...Object.fromEntries(kept), MOORING_DATA_DIR: dataDir };
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'dist', 'bin', `${name}.js`), ...words], { cwd: root, env });
  return stdout;
}
