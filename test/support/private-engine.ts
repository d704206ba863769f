import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Dockerode from 'dockerode';
import { addWitness } from '../runner/evidence.ts';
import { until } from './until.ts';
import { containersOn } from './witnesses.ts';

/** The folder of the engine's programs, as scripts/modern-engine.mjs prints it; undefined stands for the machine's own engine. */
const modernEngine = process.env.TEST_ENGINE;

/**
 * An engine of one test, which can be stopped and started again, in its own network namespace, because an engine manages the machine's
 * bridge and packet filter. Only root can start one. With `TEST_ENGINE` it is a newer one than the machine's, and uses containerd's image
 * store.
 */
export class PrivateEngine {
  private readonly folder = mkdtempSync(join(tmpdir(), 'mooring-engine-'));
  readonly socket = join(this.folder, 'docker.sock');
  readonly docker = new Dockerode({ socketPath: this.socket });
  private daemon: ChildProcess | null = null;
  private readonly forget = addWitness('private engine', () => containersOn(this.docker));

  /** Takes the process that keeps the namespace while the engine is down. */
  private constructor(private readonly holder: ChildProcess) {}

  static async open(): Promise<PrivateEngine> {
    requirePrograms('dockerd', 'unshare', 'nsenter', 'ip');
    requireRights();
    const holder = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' });
    const engine = new PrivateEngine(holder);
    const namespace = () => readlinkSync(`/proc/${holder.pid}/ns/net`);
    await until('the namespace stands', () => (namespace() === readlinkSync('/proc/self/ns/net') ? undefined : true));
    const [program = '', ...words] = engine.inside;
    execFileSync(program, [...words, 'ip', 'link', 'set', 'lo', 'up']);
    return engine;
  }

  /** The process whose network is the engine's. */
  get pid(): number {
    return this.holder.pid ?? 0;
  }

  /** The command that runs a program in the engine's network; the program's own command follows it. */
  get inside(): string[] {
    return ['nsenter', `--net=/proc/${this.holder.pid}/ns/net`];
  }

  /** Starts the engine. `settings` are its command-line options. */
  async start(settings: string[] = []): Promise<void> {
    const at = (name: string) => join(this.folder, name);
    const paths = ['--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid'), '--host', `unix://${this.socket}`];
    const [program = '', ...words] = this.inside;
    const PATH = [...(modernEngine === undefined ? [] : [modernEngine]), process.env.PATH].join(':');
    writeFileSync(at('daemon.json'), JSON.stringify(modernEngine === undefined ? {} : { features: { 'containerd-snapshotter': true } }));
    const command = [...words, 'dockerd', '--config-file', at('daemon.json'), ...paths, ...settings];
    this.daemon = spawn(program, command, { stdio: 'ignore', env: { ...process.env, PATH } });
    await until(
      'the private engine answers',
      () =>
        this.docker.ping().then(
          () => true,
          () => undefined,
        ),
      { everyMs: 100 },
    );
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    if (this.daemon === null) return;
    const ended = once(this.daemon, 'exit');
    this.daemon.kill(signal);
    this.resume();
    await ended;
    this.daemon = null;
    // Its containerd ends with it, and an engine that finds the pid waits for it, even if the process was not reaped yet.
    if (signal === 'SIGKILL') rmSync(join(this.folder, 'exec', 'containerd', 'containerd.pid'), { force: true });
  }

  /** Kills the engine and all of its containers at once, as a power loss does: nothing in memory, or under /run, is left. */
  async crash(): Promise<void> {
    const listed = await this.docker.listContainers();
    const views = await Promise.all(listed.map(({ Id }) => this.docker.getContainer(Id).inspect()));
    await this.stop('SIGKILL');
    this.killLeftBehind();
    for (const { State } of views) killIfThere(State.Pid);
    for (const point of this.mountPoints()) spawnSync('umount', ['--lazy', point]);
    rmSync(join(this.folder, 'exec'), { recursive: true, force: true });
  }

  /** Suspends the engine: its socket accepts connections, but there are no responses. */
  suspend(): void {
    this.daemon?.kill('SIGSTOP');
  }

  resume(): void {
    this.daemon?.kill('SIGCONT');
  }

  /** Stops the engine and everything in it. Containers need not be removed before: their files are removed with the engine's folder. */
  async close(): Promise<void> {
    // The engine is stopped in any case, and kills the containers that can't be stopped here.
    await this.killContainers().catch(() => undefined);
    await this.stop();
    const ended = once(this.holder, 'exit');
    this.holder.kill('SIGKILL');
    await ended;
    this.killLeftBehind();
    // Mounts are removed first: containers on the network of the engine's machine have their namespace mounted there.
    // A mount may be gone by now. The removal of the folder fails if one is left.
    for (const point of this.mountPoints()) spawnSync('umount', ['--lazy', point]);
    rmSync(this.folder, { recursive: true, force: true });
    this.forget();
  }

  /** Returns the mount points in the engine's folder, the innermost first. The second field of a line of the table is the path. */
  private mountPoints(): string[] {
    const points = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' ')[1] ?? '');
    return points.filter((point) => point.startsWith(`${this.folder}/`)).toReversed();
  }

  /** Kills the processes that watch the engine's containers, because one that started while the engine stopped is sometimes left. */
  private killLeftBehind(): void {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      try {
        if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${this.folder}/`)) process.kill(Number(pid), 'SIGKILL');
      } catch {
        // It has ended meanwhile.
      }
  }

  /** Kills running containers, since a stopping engine waits ten seconds for a program that ignores its signal. */
  private async killContainers(): Promise<void> {
    if (this.daemon === null) return;
    this.resume();
    for (const { Id } of await this.docker.listContainers()) await this.docker.getContainer(Id).kill();
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended with its supervisor.
  }
}

const adminCapability = 1n << 21n;

/** Throws if one of the programs is missing, since a test that can't run must not count as passed. */
export function requirePrograms(...programs: string[]): void {
  const folders = (process.env.PATH ?? '').split(':');
  const missing = programs.filter((program) => !folders.some((folder) => existsSync(join(folder, program))));
  if (missing.length > 0) throw new Error(`This test needs a machine with ${missing.join(', ')}, and was not run.`);
}

function requireRights(): void {
  const rights = /^CapEff:\t([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  if ((BigInt(`0x${rights}`) & adminCapability) === 0n) throw new Error('This test starts an engine, which needs root, and was not run.');
}
