import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { Target } from './rate.ts';

/** A bare handler in a process of its own. */
export class BareServer {
  private constructor(
    private readonly child: ChildProcess,
    readonly target: Target,
  ) {}

  /** Starts the handlers of `bare-server.ts`. */
  static start(databaseUrl: string, writers: number): Promise<BareServer> {
    return BareServer.run('bare-server.ts', { DATABASE_URL: databaseUrl, BENCH_WRITERS: String(writers) });
  }

  /** Starts a program of this folder, which prints its address. `headers` go with each request to it. */
  static async run(program: string, environment: Record<string, string>, headers: Record<string, string> = {}): Promise<BareServer> {
    const child = spawn(process.execPath, ['--import', './scripts/typescript.mjs', join(import.meta.dirname, program)], {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const url = /http:\/\/\S+/.exec(line.toString())?.[0] ?? '';
    return new BareServer(child, { url, pid: child.pid ?? -1, headers });
  }

  stop(): void {
    this.child.kill('SIGKILL');
  }
}
