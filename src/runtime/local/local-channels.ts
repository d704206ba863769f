import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AgentChannels } from '../channel/agent-channels.ts';
import { Channel, type ChannelTransport } from '../channel/channel.ts';
import type { FilesChannel } from '../channel/channel-files.ts';
import type { ExecRequest, ExecResult } from '../runtime.ts';
import type { ContainerHandle } from '../container.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { CommandRecords } from './command-records.ts';
import { expectState } from './container-states.ts';
import type { LocalContainer } from './local-container.ts';
import { liveness } from './processes.ts';

/** The keeper's socket in a container's folder. */
const SOCKET = 'keeper';
const READY_MS = 15_000;

const processors: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const programs = new URL('../../../supervisor/bin/', import.meta.url);

/** An agent whose channel is requested, and the environment variables of its commands. */
export interface LocalAgent {
  container: LocalContainer;
  environment: () => Promise<Record<string, string>>;
}

/**
 * The channels to the keepers of agents on this machine: the same program as in containers runs their commands and sessions. A keeper is
 * started at its first use, outlives the service, and ends with the agent's process. Requests go through a supervisor that is attached to
 * it.
 */
export class LocalChannels {
  private readonly channels = new AgentChannels((handle) => this.connect(handle), '');
  private readonly starting = new Map<ContainerHandle, Promise<void>>();

  constructor(private readonly agentOf: (handle: ContainerHandle) => LocalAgent) {}

  /** Returns the channel to a running agent's keeper. Throws as `AgentChannels.of`, and `RuntimeRefused` on other machines. */
  async of(handle: ContainerHandle, signal: AbortSignal): Promise<FilesChannel> {
    supervisorProgram();
    await expectState(this.agentOf(handle).container, ['running']);
    const starting = this.starting.get(handle) ?? this.ensureKeeper(handle).finally(() => this.starting.delete(handle));
    this.starting.set(handle, starting);
    await starting;
    return this.channels.of(handle, signal);
  }

  /** Runs a command in a session. */
  async exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult> {
    await this.of(handle, request.signal ?? new AbortController().signal);
    return this.channels.exec(handle, request);
  }

  discard(handle: ContainerHandle): void {
    this.channels.discard(handle);
  }

  close(): void {
    this.channels.close();
  }

  private async ensureKeeper(handle: ContainerHandle): Promise<void> {
    const { container, environment } = this.agentOf(handle);
    const records = new CommandRecords(container.folder);
    if ((await records.keeper()) !== null) return;
    const agent = (await container.lastRun())?.agent ?? null;
    if (agent === null || liveness(agent) === 'gone') throw new RuntimeRefused('The container does not run, so nothing can be run in it.');
    const { id, variables } = await records.announceKeeper();
    const env = { ...(await environment()), ...variables };
    const child = spawn(supervisorProgram(), ['keep', SOCKET, String(agent.pid)], {
      cwd: container.folder,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    child.unref();
    try {
      await isReady(child);
      await records.addKeeper(id, child.pid);
    } finally {
      child.stdout.destroy();
    }
  }

  private async connect(handle: ContainerHandle): Promise<FilesChannel> {
    const { container } = this.agentOf(handle);
    const child = spawn(supervisorProgram(), ['attach', SOCKET], { cwd: container.folder, env: {}, stdio: ['pipe', 'pipe', 'ignore'] });
    const { stdin, stdout } = child;
    // The service may stop during the backoff of a channel.
    for (const each of [child, stdin, stdout]) (each as { unref?: () => void }).unref?.();
    let failure: Error | null = null;
    child.on('error', (error) => {
      failure = error;
      stdout.destroy();
    });
    const transport: ChannelTransport = {
      input: stdin,
      onBytes: (callback) => stdout.on('data', callback),
      onEnd: (callback) => stdout.on('close', () => callback(failure)),
      pauseReading: (ms) => {
        stdout.pause();
        setTimeout(() => stdout.resume(), ms).unref();
      },
      close: () => {
        stdin.destroy();
        stdout.destroy();
      },
    };
    return { channel: await Channel.open(transport), root: container.volume, others: [] };
  }
}

function supervisorProgram(): string {
  const processor = process.platform === 'linux' ? processors[process.arch] : undefined;
  if (processor === undefined) throw new RuntimeRefused('Sessions and commands that go on need Linux on amd64 or arm64.');
  return join(fileURLToPath(programs), `supervisor-${processor}`);
}

/** Resolves once the keeper listens. */
function isReady(child: ReturnType<typeof spawn>): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (why: string) => reject(new RuntimeUnavailable(new Error(why)));
    const timer = setTimeout(() => fail('the keeper does not answer'), READY_MS);
    child.stdout?.once('data', () => resolve());
    child.stdout?.once('close', () => fail('the keeper ended'));
    child.once('error', (error) => fail(error.message));
    child.once('error', () => clearTimeout(timer));
    child.stdout?.once('close', () => clearTimeout(timer));
    child.stdout?.once('data', () => clearTimeout(timer));
  });
}
