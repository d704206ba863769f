import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import type Dockerode from 'dockerode';

import { RfbConnection } from '../../src/desktop/rfb/rfb-connection.ts';
import { until } from '../../test/support/until.ts';

const PROGRAM = resolve(import.meta.dirname, '../../deploy/computer/desktop/desktop');
const RUNTIME_FOLDER = '/run/user/1000';
const LOOK_MS = 5;

/** A desktop outside the service: the baseline for a computer. */
export abstract class BareDesktop {
  /** Starts it, and resolves once it has shown a frame. */
  async start(): Promise<void> {
    await this.boot();
    await this.firstFrame();
  }

  /** Lets it run on, and resolves once it has shown a frame. */
  async thaw(): Promise<void> {
    await this.unpause();
    await this.firstFrame();
  }

  abstract stop(): Promise<void>;
  abstract freeze(): Promise<void>;
  abstract remove(): Promise<void>;

  protected abstract boot(): Promise<void>;
  protected abstract unpause(): Promise<void>;
  protected abstract readonly folder: string;

  private async firstFrame(): Promise<void> {
    const connection = await until('the desktop', () => this.connection().catch(() => undefined), { everyMs: LOOK_MS });
    await connection.capture();
    connection.close();
  }

  private async connection(): Promise<RfbConnection> {
    const socket = connect(join(this.folder, 'vnc.sock'));
    await once(socket, 'connect');
    return RfbConnection.open(socket);
  }
}

/** The programs of a desktop as child processes. */
export class BareProcesses extends BareDesktop {
  protected readonly folder: string;
  private program: ChildProcess | null = null;

  private constructor(private readonly home: string) {
    super();
    this.folder = join(home, 'run');
  }

  static async make(): Promise<BareProcesses> {
    return new BareProcesses(await mkdtemp(join(tmpdir(), 'bare-desktop-')));
  }

  async stop(): Promise<void> {
    const { program } = this;
    if (program === null) return;
    this.program = null;
    this.signal('SIGCONT', program);
    program.kill('SIGTERM');
    if (program.exitCode === null && program.signalCode === null) await once(program, 'exit');
  }

  async freeze(): Promise<void> {
    this.signal('SIGSTOP', this.program);
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.home, { recursive: true, force: true });
  }

  protected async boot(): Promise<void> {
    const env = { PATH: process.env['PATH'], HOME: this.home, XDG_RUNTIME_DIR: this.folder, DISPLAY: ':94' };
    this.program = spawn(PROGRAM, { env, detached: true, stdio: 'ignore' });
    await once(this.program, 'spawn');
  }

  protected async unpause(): Promise<void> {
    this.signal('SIGCONT', this.program);
  }

  private signal(signal: NodeJS.Signals, program: ChildProcess | null): void {
    if (program?.pid !== undefined && program.exitCode === null) process.kill(-program.pid, signal);
  }
}

/** A container of the engine with the image, init process, volume and network that any such container needs. */
export class BareContainer extends BareDesktop {
  private pid = 0;

  private constructor(private readonly container: Dockerode.Container) {
    super();
  }

  static async make(docker: Dockerode, image: string, network: string): Promise<BareContainer> {
    const container = await docker.createContainer({
      Image: image,
      HostConfig: {
        NetworkMode: network,
        Init: true,
        ShmSize: 256 * 1_048_576,
        Tmpfs: { '/tmp': 'exec,mode=1777', [RUNTIME_FOLDER]: 'uid=1000,mode=0700' },
        Mounts: [{ Type: 'volume', Source: '', Target: '/home/user' }],
      },
    });
    return new BareContainer(container);
  }

  protected get folder(): string {
    return `/proc/${this.pid}/root${RUNTIME_FOLDER}`;
  }

  async stop(): Promise<void> {
    await this.container.stop({ t: 10 });
  }

  async freeze(): Promise<void> {
    await this.container.pause();
  }

  async remove(): Promise<void> {
    await this.container.remove({ force: true, v: true });
  }

  protected async boot(): Promise<void> {
    await this.container.start();
    this.pid = (await this.container.inspect()).State.Pid;
  }

  protected async unpause(): Promise<void> {
    await this.container.unpause();
  }
}
