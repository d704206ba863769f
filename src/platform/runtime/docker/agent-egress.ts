import type Dockerode from 'dockerode';
import type { OpenRange } from '../../open-ranges.ts';
import { RuntimeRefused, type EgressStatus } from '../runtime.ts';
import type { EgressMode } from '../../config/config.ts';
import { agentBridges, type Bridges } from './bridges.ts';
import { egressRules, noRules, refusedPackets } from './egress-rules.ts';
import { Nft } from './nft.ts';

/** The interval at which the rules are loaded again, whatever became of them meanwhile, ms. */
const RELOAD_MS = 60_000;
/** The engine's name servers are looked up with every such number of loads. */
const NAMESERVERS_EACH = 10;

export interface EgressOptions {
  docker: Dockerode;
  instance: string;
  mode: EgressMode;
  /** The private addresses that agents may reach nevertheless. */
  open: readonly OpenRange[];
  /** Called with the reason when the rules can't be enforced, and with null when they can be again. */
  onChange: (lack: string | null) => void;
}

/**
 * Keeps the egress rules of agents in place. They are loaded before a container starts on a network that they don't cover yet, again
 * whenever the engine may have restarted, and every minute.
 */
export class AgentEgress {
  private readonly nft: Nft;
  private covered: ReadonlySet<string> = new Set();
  /** The number of times that the rules became doubtful; `heard` is the number that the last load took into account. */
  private doubts = 1;
  private heard = 0;
  private loading: Promise<void> | null = null;
  private nameservers: string[] = [];
  private loads = 0;
  private status: EgressStatus = { lack: null, refused: new Map() };
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly options: EgressOptions) {
    this.nft = new Nft(options.docker, options.instance);
  }

  /** Resolves when the rules cover the bridge, or it is known and reported that they can't. Throws `RuntimeUnavailable`. */
  async cover(bridge: string): Promise<void> {
    if (!this.covered.has(bridge)) this.doubts += 1;
    await this.settle();
  }

  /** Resolves when the rules are in place, or it is known and reported that they can't be. Throws `RuntimeUnavailable`. */
  async settle(): Promise<void> {
    if (this.heard === this.doubts || this.options.mode === 'all') return;
    await this.load();
  }

  /** Notes that the engine may have restarted, and loads the rules again. */
  doubt(): void {
    this.doubts += 1;
    // A failed load is retried before the next start of an agent and by the timer.
    this.load().catch(() => undefined);
  }

  async read(): Promise<EgressStatus> {
    await this.settle();
    return this.status;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  /** Loads the rules. A load that began before the call may have listed the networks too early, so one more follows it. */
  private async load(): Promise<void> {
    if (this.loading !== null) await this.loading.catch(() => undefined);
    this.loading ??= this.loadNow().finally(() => (this.loading = null));
    return this.loading;
  }

  private async loadNow(): Promise<void> {
    clearTimeout(this.timer);
    try {
      const { doubts } = this;
      const bridges = await agentBridges(this.options.docker, this.options.instance);
      this.tell(await this.apply(bridges));
      this.covered = new Set([...bridges.open, ...bridges.closed]);
      this.heard = doubts;
    } finally {
      clearTimeout(this.timer);
      if (!this.closed) this.timer = setTimeout(() => void this.load().catch(() => undefined), RELOAD_MS).unref();
    }
  }

  private async apply(bridges: Bridges): Promise<EgressStatus> {
    const { instance, mode, open } = this.options;
    try {
      if (mode === 'all') {
        await this.nft.run(noRules(instance));
        return { lack: null, refused: new Map() };
      }
      if (mode === 'internet' && this.loads++ % NAMESERVERS_EACH === 0) this.nameservers = await this.nft.nameservers();
      const rules = egressRules(instance, mode, bridges, { nameservers: this.nameservers, ranges: open });
      const listed = await this.nft.run(rules).catch((error: unknown) => {
        // A table that can't be changed into ours is created again.
        if (error instanceof RuntimeRefused) return this.nft.run(noRules(instance) + rules);
        throw error;
      });
      return { lack: null, refused: refusedPackets(listed) };
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      this.loads = 0;
      // If everything is allowed, there is nothing to enforce, and mostly nothing to remove.
      return { lack: mode === 'all' ? null : error.message, refused: new Map() };
    }
  }

  private tell(status: EgressStatus): void {
    if (status.lack !== this.status.lack) this.options.onChange(status.lack);
    this.status = status;
  }
}
