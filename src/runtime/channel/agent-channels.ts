import type { Duplex } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { unlessAborted } from '../../kernel/async/unless-aborted.ts';
import { refuseOtherTarget } from '../dial-target.ts';
import { Dials } from '../dials.ts';
import type { DialTarget, ExecRequest, ExecResult, Terminal, TerminalRequest } from '../runtime.ts';
import type { ContainerHandle, ContainerName } from '../container.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { dialOver } from './channel-dial.ts';
import { runtimeError } from './channel-errors.ts';
import { execOver } from './channel-exec.ts';
import type { FilesChannel } from './channel-files.ts';
import { terminalOver } from './channel-terminal.ts';

/** The time after which a channel that nobody uses is closed, ms. */
const IDLE_MS = 60_000;
const SWEEP_MS = 15_000;
/** The channels of one process. The one that was used longest ago is closed for one more, unless all of them are in use. */
const CHANNELS_MAX = 1_000;

interface Entry {
  opening: Promise<FilesChannel>;
  opened: FilesChannel | null;
  usedAt: number;
  isFrozen: boolean;
}

/**
 * The channels to the supervisors of running containers: one for each container, opened at its first use, kept while it is used and while the
 * container is frozen, and opened anew after it broke. It owns the channels; what is done over them is its callers'.
 */
export class AgentChannels {
  private readonly entries = new Map<ContainerHandle, Entry>();
  /** The containers that the engine said were running. */
  private readonly running = new LRUCache<string, ContainerHandle>({ max: CHANNELS_MAX });
  private readonly dials = new Dials();
  private readonly sweeper: NodeJS.Timeout;

  /** `connect` opens the channel to a running container; `helper` is the program in it with what images often lack. */
  constructor(
    private readonly connect: (handle: ContainerHandle) => Promise<FilesChannel>,
    private readonly helper: string,
  ) {
    this.sweeper = setInterval(() => this.closeIdle(), SWEEP_MS).unref();
  }

  /** Returns the channel to a running container. Throws `RuntimeRefused`, `RuntimeUnavailable`, `ContainerGone`, and the signal's reason. */
  async of(handle: ContainerHandle, signal: AbortSignal): Promise<FilesChannel> {
    signal.throwIfAborted();
    const known = this.entries.get(handle);
    if (known?.isFrozen) throw new RuntimeRefused('The container is frozen, so nothing can be run in it.');
    if (known?.opened?.channel.isStuck) known.opened.channel.close();
    const entry = known !== undefined && known.opened?.channel.isOpen !== false ? known : this.open(handle);
    entry.usedAt = performance.now();
    // The order of the map is that of their use.
    this.entries.delete(handle);
    this.entries.set(handle, entry);
    return entry.opened ?? (await unlessAborted(entry.opening, signal));
  }

  /**
   * Returns the handle of a container that has run since its channel was opened, so that the engine need not be asked: the channel ends with
   * the container. Null says nothing.
   */
  runningOf(container: ContainerName): ContainerHandle | null {
    const handle = this.running.get(keyOf(container));
    const entry = handle === undefined ? undefined : this.entries.get(handle);
    return handle !== undefined && entry?.isFrozen === false && entry.opened?.channel.isOpen === true ? handle : null;
  }

  /** Notes that the engine has said that the container runs. */
  setRunning(container: ContainerName, handle: ContainerHandle): void {
    this.running.set(keyOf(container), handle);
  }

  /** Forgets what the engine has said, since events that tell otherwise may have been missed. */
  doubt(): void {
    this.running.clear();
  }

  /** Runs a command in a running container (see `ContainerRuntime.exec`). */
  async exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult> {
    const signal = request.signal ?? new AbortController().signal;
    const to = await this.of(handle, signal);
    await to.channel.free(signal);
    return execOver(to, request, this.helper).catch((error: unknown) => {
      throw runtimeError(error);
    });
  }

  /** Opens a terminal in a running container (see `ContainerRuntime.terminal`). */
  async terminal(handle: ContainerHandle, request: TerminalRequest): Promise<Terminal> {
    const { channel } = await this.of(handle, request.signal);
    await channel.free(request.signal);
    return terminalOver(channel, request, this.helper);
  }

  /** Connects to a socket or a port in a running container (see `ContainerRuntime.dial`). */
  async dial(handle: ContainerHandle, to: DialTarget, signal: AbortSignal): Promise<Duplex> {
    refuseOtherTarget(to);
    return this.dials.add(handle, async () => {
      const { channel } = await this.of(handle, signal);
      await channel.free(signal);
      return dialOver(channel, to, signal);
    });
  }

  /** Notes whether the container is frozen: nothing is sent to one that can't answer. */
  setFrozen(handle: ContainerHandle, isFrozen: boolean): void {
    const entry = this.entries.get(handle);
    if (entry === undefined) return;
    entry.isFrozen = isFrozen;
    if (!isFrozen) entry.opened?.channel.noteThaw();
  }

  /** Closes the channel to a container that is removed. */
  forget(handle: ContainerHandle): void {
    this.entries.get(handle)?.opened?.channel.close();
    this.entries.delete(handle);
  }

  close(): void {
    clearInterval(this.sweeper);
    for (const { opened } of this.entries.values()) opened?.channel.close();
    this.entries.clear();
  }

  private open(handle: ContainerHandle): Entry {
    this.makeRoom();
    const opening = this.connect(handle);
    const entry: Entry = { opening, opened: null, usedAt: performance.now(), isFrozen: false };
    opening.then(
      (opened) => {
        entry.opened = opened;
        if (this.entries.get(handle) !== entry) opened.channel.close();
        void opened.channel.closed.then(() => this.remove(handle, entry));
      },
      () => this.remove(handle, entry),
    );
    return entry;
  }

  private remove(handle: ContainerHandle, entry: Entry): void {
    if (this.entries.get(handle) === entry) this.entries.delete(handle);
  }

  private makeRoom(): void {
    if (this.entries.size < CHANNELS_MAX) return;
    for (const { opened } of this.entries.values())
      if (opened?.channel.size === 0) {
        opened.channel.close();
        return;
      }
  }

  private closeIdle(): void {
    const before = performance.now() - IDLE_MS;
    for (const { opened, usedAt } of this.entries.values()) if (usedAt < before && opened?.channel.size === 0) opened.channel.close();
  }
}

const keyOf = ({ agentId, generation }: ContainerName): string => `${agentId} ${generation}`;
