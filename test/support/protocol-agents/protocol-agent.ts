import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A server of another protocol, which runs as its own process. */
export class ProtocolAgent {
  readonly host = '127.0.0.1';

  private constructor(
    readonly port: number,
    private readonly process: ChildProcess,
    private readonly folder: string,
  ) {}

  static langgraph(): Promise<ProtocolAgent> {
    return ProtocolAgent.start('langgraph.mjs', (folder) => folder);
  }

  static a2a(version: '1.0' | '0.3'): Promise<ProtocolAgent> {
    return ProtocolAgent.start('a2a.mjs', () => version);
  }

  private static async start(program: string, argument: (folder: string) => string): Promise<ProtocolAgent> {
    const folder = await mkdtemp(join(tmpdir(), 'mooring-protocol-agent-'));
    const file = fileURLToPath(new URL(program, import.meta.url));
    const child = spawn(process.execPath, [file, argument(folder)], { stdio: ['ignore', 'pipe', 'pipe'] });
    const printed: string[] = [];
    child.stderr.on('data', (chunk: Buffer) => printed.push(chunk.toString()));
    const port = await new Promise<number>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`${program} ended: ${printed.join('')}`)));
      createInterface(child.stdout).on('line', (line) => {
        printed.push(`${line}\n`);
        const found = /^port (\d+)$/.exec(line)?.[1];
        if (found !== undefined) resolve(Number(found));
      });
    });
    return new ProtocolAgent(port, child, folder);
  }

  async stop(): Promise<void> {
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
    await rm(this.folder, { recursive: true, force: true });
  }
}
