import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { Target } from './rate.ts';

/** The bare handlers of `bare-server.ts` in a process of their own. */
export class BareServer {
  private constructor(
    private readonly child: ChildProcess,
    readonly target: Target,
  ) {}

  static async start(databaseUrl: string, writers: number): Promise<BareServer> {
    const program = join(import.meta.dirname, 'bare-server.ts');
    const child = spawn(process.execPath, ['--import', './scripts/typescript.mjs', program], {
      env: { ...process.env, DATABASE_URL: databaseUrl, BENCH_WRITERS: String(writers) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const url = /http:\/\/\S+/.exec(line.toString())?.[0] ?? '';
    return new BareServer(child, { url, pid: child.pid ?? -1, headers: {} });
  }

  stop(): void {
    this.child.kill('SIGKILL');
  }
}
