import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A virtual environment of Python with packages of PyPI. */
export class PythonEnvironment {
  private constructor(private readonly folder: string) {}

  /** Installs what the words name, in pip's own form. */
  static async make(...words: string[]): Promise<PythonEnvironment> {
    const folder = await mkdtemp(join(tmpdir(), 'mooring-python-'));
    await run('python3', ['-m', 'venv', folder]);
    const options = ['install', '--quiet', '--no-cache-dir', '--disable-pip-version-check'];
    await run(join(folder, 'bin/pip'), [...options, ...words], { maxBuffer: 64 * 1024 * 1024 });
    return new PythonEnvironment(folder);
  }

  get python(): string {
    return join(this.folder, 'bin/python');
  }

  /** Returns what a program prints. Throws with what it wrote to its errors if it fails. */
  async output(words: string[], environment: Record<string, string> = {}, cwd?: string): Promise<string> {
    const env = { ...process.env, PATH: `${join(this.folder, 'bin')}:${process.env['PATH']}`, ...environment };
    const running = run(this.python, words, { env, ...(cwd === undefined ? {} : { cwd }) });
    running.child.stdin?.end();
    return (await running).stdout;
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Returns whether PyPI responds with this machine's settings of `pip`. */
export async function pypiAnswers(): Promise<boolean> {
  const words = ['download', '--quiet', '--no-deps', '--retries=0', '--timeout=20', '--disable-pip-version-check', 'six==1.17.0'];
  const folder = await mkdtemp(join(tmpdir(), 'mooring-pypi-'));
  try {
    await run('python3', ['-m', 'pip', ...words, '--dest', folder]);
    return true;
  } catch {
    return false;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
