import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { Channel, type ChannelTransport } from '../../src/runtime/channel/channel.ts';
import { addWitness } from '../runner/evidence.ts';

const processors: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** The supervisor for this machine that is shipped with the service, or one that was compiled differently, for example with a sanitizer. */
export const supervisorPath =
  process.env.TEST_SUPERVISOR ??
  fileURLToPath(new URL(`../../supervisor/bin/supervisor-${processors[process.arch] ?? process.arch}`, import.meta.url));

/** A real supervisor that is attached to this process, without a container around it. */
export class AttachedSupervisor {
  private readonly forget = addWitness('supervisor', async () => `pid ${this.child.pid}`);

  private constructor(
    readonly child: ChildProcess,
    readonly channel: Channel,
  ) {}

  /** Given a keeper's socket, it attaches to that. */
  static async open(keeper?: { folder: string; socket: string }): Promise<AttachedSupervisor> {
    const env = { PATH: process.env.PATH };
    const words = keeper === undefined ? ['attach'] : ['attach', keeper.socket];
    const child = spawn(supervisorPath, words, { stdio: ['pipe', 'pipe', 'inherit'], env, cwd: keeper?.folder });
    const { stdin, stdout } = child;
    const transport: ChannelTransport = {
      input: stdin,
      onBytes: (callback) => stdout.on('data', callback),
      onEnd: (callback) => stdout.on('close', () => callback(null)),
      pauseReading: (ms) => {
        stdout.pause();
        setTimeout(() => stdout.resume(), ms);
      },
      close: () => stdin.destroy(),
    };
    return new AttachedSupervisor(child, await Channel.open(transport));
  }

  async close(): Promise<void> {
    const ended = this.child.exitCode === null && this.child.signalCode === null ? once(this.child, 'exit') : null;
    this.channel.close();
    await ended;
    this.forget();
  }
}
