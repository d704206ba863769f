import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { pause } from '../../../kernel/async/pause.ts';
import { Backoff } from '../../../kernel/async/retry.ts';
import type { EnginePlace } from './docker-host.ts';

type SshPlace = Extract<EnginePlace, { kind: 'ssh' }>;

const RETRY = { firstMs: 250, lastMs: 10_000, jitter: true };
/** The time that a connection has to last until the backoff is reset, in ms. */
const HOLDS_MS = 10_000;
const STDERR_CHARACTERS_MAX = 2_000;
const REASON_CHARACTERS_MAX = 300;

/**
 * The settings that apply whatever the operator's configuration says: no prompts, unknown hosts are refused, silent hosts time out, and
 * only the two sockets are forwarded.
 */
const SETTINGS = {
  BatchMode: 'yes',
  StrictHostKeyChecking: 'yes',
  ExitOnForwardFailure: 'yes',
  StreamLocalBindUnlink: 'yes',
  StreamLocalBindMask: '0177',
  ConnectTimeout: '10',
  ServerAliveInterval: '10',
  ServerAliveCountMax: '3',
  ControlMaster: 'no',
  ControlPath: 'none',
  PermitLocalCommand: 'no',
  RemoteCommand: 'none',
  ForwardAgent: 'no',
  ForwardX11: 'no',
  Tunnel: 'no',
  EscapeChar: 'none',
  LogLevel: 'ERROR',
};

/**
 * One OpenSSH connection to the engine's machine, which is reestablished without limit. It carries all calls to the engine and all
 * connections to agents, through two sockets in a folder that only this user can open.
 */
export class SshTunnel {
  private readonly folder = mkdtempSync(join(tmpdir(), 'mooring-ssh-'));
  /** The socket file of the engine. */
  readonly engine = join(this.folder, 'engine.sock');
  /** The socket file of a SOCKS relay, which connects from the engine's machine. */
  readonly relay = join(this.folder, 'agents.sock');
  private readonly closing = new AbortController();
  private child: ChildProcess | null = null;
  private reason: string | null = null;
  private readonly kept: Promise<void>;
  /** Aborts when the first attempt to connect has ended. */
  private readonly tried = new AbortController();

  constructor(
    private readonly place: SshPlace,
    /** A file in the form of ssh_config(5) instead of the user's own; null stands for that. */
    private readonly configFile: string | null,
    /** Called with the reason when the connection is lost or can't be made, and with null when it is established again. */
    private readonly onChange: (lack: string | null) => void,
  ) {
    this.kept = this.keepAlive();
  }

  /** Resolves when the first attempt to connect has succeeded or failed, or after `withinMs`. */
  async attempted(withinMs: number): Promise<void> {
    await pause(withinMs, this.tried.signal);
  }

  async close(): Promise<void> {
    this.closing.abort();
    this.child?.kill();
    await this.kept;
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async keepAlive(): Promise<void> {
    const backoff = new Backoff(RETRY);
    while (!this.closing.signal.aborted) {
      const begun = performance.now();
      const reason = await this.run();
      if (this.closing.signal.aborted) break;
      this.reportChange(reason);
      if (performance.now() - begun > HOLDS_MS) backoff.reset();
      await backoff.pause(this.closing.signal);
    }
  }

  /** Runs ssh until it ends. Returns the reason. */
  private async run(): Promise<string> {
    const { PATH, HOME, USER, LOGNAME, SSH_AUTH_SOCK } = process.env;
    // In a session of its own, ssh does not get the signals of a terminal, so a service that stops can still reach its engine.
    const child = spawn('ssh', this.reasonText(), { env: { PATH, HOME, USER, LOGNAME, SSH_AUTH_SOCK, LC_ALL: 'C' }, detached: true });
    this.child = child;
    let said = '';
    child.stderr.on('data', (text: Buffer) => (said = (said + text.toString()).slice(-STDERR_CHARACTERS_MAX)));
    // The remote program repeats the line, which shows that the sockets are ready. It ends with its input, and so does ssh if this
    // process is killed.
    child.stdin.on('error', () => undefined).write('\n');
    child.stdout.once('data', () => this.reportChange(null)).resume();
    try {
      await once(child, 'close');
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      return code === 'ENOENT' ? 'this machine has no ssh: install the package openssh-client' : message;
    }
    return said.trim().split('\n').at(-1)?.trim().slice(0, REASON_CHARACTERS_MAX) || 'the connection was closed';
  }

  private reasonText(): string[] {
    const { user, host, port, socket } = this.place;
    return [
      '-T',
      ...(this.configFile === null ? [] : ['-F', this.configFile]),
      ...Object.entries(SETTINGS).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
      ...(port === null ? [] : ['-p', String(port)]),
      ...(user === null ? [] : ['-l', user]),
      '-L',
      `${this.engine}:${socket}`,
      '-D',
      this.relay,
      '--',
      host,
      'cat',
    ];
  }

  private reportChange(reason: string | null): void {
    this.tried.abort();
    if (reason !== this.reason) this.onChange(reason);
    this.reason = reason;
  }
}
