import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

const SERVER_OPTIONS =
  `-displayfd 3 -rfbunixmode 0600 -rfbport -1 -SecurityTypes None -nolisten tcp -extension GLX -AlwaysShared -FrameRate 30
  -geometry 1280x800 -depth 24 -ac`.split(/\s+/);

/** A desktop of TigerVNC with one terminal, as child processes. Its programs are tigervnc-standalone-server and xterm of Debian. */
export class RealDesktop {
  private readonly sockets = new Set<Socket>();

  private constructor(
    /** The folder in which the terminal's shell is. */
    readonly home: string,
    private readonly programs: ChildProcess[],
  ) {}

  /** Starts a desktop whose terminal fills the screen; its first line is the text. */
  static async start(firstLine: string): Promise<RealDesktop> {
    const home = await mkdtemp(join(tmpdir(), 'desktop-'));
    const desktop = new RealDesktop(home, []);
    try {
      await desktop.launch(firstLine);
    } catch (error) {
      await desktop.stop();
      throw error;
    }
    return desktop;
  }

  async dial(): Promise<Socket> {
    const socket = connect(this.socketPath);
    this.sockets.add(socket);
    await once(socket, 'connect');
    return socket;
  }

  /** Closes the connections, not the desktop. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
  }

  /** Stops the programs with SIGTERM, upon which the server removes its lock. */
  async stop(): Promise<void> {
    this.cut();
    for (const program of this.programs.toReversed()) {
      if (program.exitCode === null && program.signalCode === null && program.kill()) await once(program, 'exit');
    }
    await rm(this.home, { recursive: true, force: true });
  }

  /** The path of the server's socket. */
  get socketPath(): string {
    return join(this.home, 'vnc');
  }

  private async launch(firstLine: string): Promise<void> {
    const server = this.run('Xtigervnc', [...SERVER_OPTIONS, '-rfbunixpath', this.socketPath]);
    const [number] = (await once(server.stdio[3] as Readable, 'data')) as [Buffer];
    const script = `printf '%s\\n' '${firstLine}'; touch ready; exec sh`;
    this.run('xterm', ['-u8', '-fn', 'fixed', '-geometry', '200x55+0+0', '-e', 'sh', '-c', script], `:${number.toString().trim()}`);
  }

  private run(program: string, args: string[], display?: string): ChildProcess {
    const env = { PATH: process.env['PATH'], HOME: this.home, LANG: 'C.UTF-8', PS1: '$ ', ...(display && { DISPLAY: display }) };
    const child = spawn(program, args, { cwd: this.home, env, stdio: ['ignore', 'ignore', 'ignore', 'pipe'] });
    const [, , , ready] = child.stdio;
    ready?.on('error', () => undefined);
    child.once('error', () => ready?.destroy(new Error(`${program} is missing: install tigervnc-standalone-server and xterm`)));
    child.once('exit', () => ready?.destroy(new Error(`${program} has ended`)));
    this.programs.push(child);
    return child;
  }
}
