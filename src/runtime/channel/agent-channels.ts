/**
 * The channels to the supervisors of running containers, one for each container.
 *
 * Owns: the channels: when they are opened, closed, and replaced. Does not own what is done over them (`ChannelFiles`, `ChannelCommands`).
 *
 * A1  A channel is opened at its first use, kept while it is used and while its container is frozen, and opened again after it broke.
 * A2  Nothing is sent to a frozen container, whose supervisor can't respond.
 * A3  An open channel proves that its container runs, so the engine need not be called. After lost events of the engine that knowledge is
 *     dropped.
 * A4  The number of channels is bounded: the one that was used longest ago is closed for one more, unless all of them are in use.
 */
import type { Duplex } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { raceAbort } from '../../kernel/async/race-abort.ts';
import { validateTarget } from '../dial-target.ts';
import { Dials } from '../dials.ts';
import type { DialTarget, ExecRequest, ExecResult, Terminal, TerminalRequest } from '../runtime.ts';
import type { ContainerHandle, ContainerName } from '../container.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { dialOver } from './channel-dial.ts';
import { runtimeError } from './channel-errors.ts';
import { execOver } from './channel-exec.ts';
import type { FilesChannel } from './channel-files.ts';
import { terminalOver } from './channel-terminal.ts';

/** The time after which an unused channel is closed, in ms. */
const IDLE_MS = 60_000;
const SWEEP_MS = 15_000;
/** A4: The most channels of one process. */
const CHANNELS_MAX = 1_000;

interface Entry {
  opening: Promise<FilesChannel>;
  opened: FilesChannel | null;
  usedAt: number;
  isFrozen: boolean;
}

/** The channels of this process. See A1 to A4. */
export class AgentChannels {
  private readonly entries = new Map<ContainerHandle, Entry>();
  /** A3: The containers that the engine reported as running. */
  private readonly running = new LRUCache<string, ContainerHandle>({ max: CHANNELS_MAX });
  private readonly dials = new Dials();
  private readonly sweeper: NodeJS.Timeout;

  /** `connect` opens the channel to a running container. `helper` is the path of the busybox in it. */
  constructor(
    private readonly connect: (handle: ContainerHandle) => Promise<FilesChannel>,
    private readonly helper: string,
  ) {
    this.sweeper = setInterval(() => this.closeIdle(), SWEEP_MS).unref();
  }

  /**
   * Returns the channel to a running container. Throws `RuntimeRefused`, `RuntimeUnavailable`, `ContainerGone`, and the signal's reason.
   */
  async of(handle: ContainerHandle, signal: AbortSignal): Promise<FilesChannel> {
    signal.throwIfAborted();
    const known = this.entries.get(handle);
    if (known?.isFrozen) throw new RuntimeRefused('The container is frozen, so nothing can be run in it.');
    if (known?.opened?.channel.isStuck) known.opened.channel.close();
    const entry = known !== undefined && known.opened?.channel.isOpen !== false ? known : this.open(handle);
    entry.usedAt = performance.now();
    // A4: The map is in the order of last use.
    this.entries.delete(handle);
    this.entries.set(handle, entry);
    return entry.opened ?? (await raceAbort(entry.opening, signal));
  }

  /**
   * A3: Returns the handle of a container that has run since its channel was opened: the channel ends with the container. Null means that
   * this is unknown.
   */
  runningOf(container: ContainerName): ContainerHandle | null {
    const handle = this.running.get(keyOf(container));
    const entry = handle === undefined ? undefined : this.entries.get(handle);
    return handle !== undefined && entry?.isFrozen === false && entry.opened?.channel.isOpen === true ? handle : null;
  }

  /** A3: Notes that the engine reported the container as running. */
  setRunning(container: ContainerName, handle: ContainerHandle): void {
    this.running.set(keyOf(container), handle);
  }

  /** A3: Drops what the engine reported, since events may have been missed. */
  invalidate(): void {
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
    validateTarget(to);
    return this.dials.add(handle, async () => {
      const { channel } = await this.of(handle, signal);
      await channel.free(signal);
      return dialOver(channel, to, signal);
    });
  }

  /** A2: Notes whether the container is frozen. */
  setFrozen(handle: ContainerHandle, isFrozen: boolean): void {
    const entry = this.entries.get(handle);
    if (entry === undefined) return;
    entry.isFrozen = isFrozen;
    if (!isFrozen) entry.opened?.channel.noteThaw();
  }

  /** Closes the channel to a container that is removed. */
  discard(handle: ContainerHandle): void {
    this.entries.get(handle)?.opened?.channel.close();
    this.entries.delete(handle);
  }

  close(): void {
    clearInterval(this.sweeper);
    for (const { opened } of this.entries.values()) opened?.channel.close();
    this.entries.clear();
  }

  private open(handle: ContainerHandle): Entry {
    this.evictOldest();
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

  private evictOldest(): void {
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
