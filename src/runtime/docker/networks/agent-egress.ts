/**
 * The packet rules of agents: what they may reach, and that they reach nobody on the link that they share.
 *
 * Owns: the loading of the rules, their status, and the proxy of agents with lists. Does not own the text of the rules (`egressRules`,
 * `linkRules`), or the networks (`AgentNetworks`).
 *
 * E1  No container starts on a network that the rules don't cover. They are loaded before, again whenever the engine may have restarted,
 *     and every minute.
 * E2  A load that began before a doubt does not settle it, since it may have listed the networks too early.
 * E3  Egress rules that can't be enforced are reported, logged once per change, and refuse the start of agents whose owners were promised
 *     less than the mode allows.
 */
import type Dockerode from 'dockerode';
import type { OpenRange } from '../../../kernel/network/open-ranges.ts';
import type { EgressStatus } from '../../engine-status.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import type { EgressMode } from '../../../kernel/config/config.ts';
import { agentBridges, type Bridges } from './bridges.ts';
import { EgressImages } from './egress-images.ts';
import { EgressProxy, type AssignedAddresses } from './egress-proxy.ts';
import { egressRules, refusedPackets } from './egress-rules.ts';
import { HostLimits, readOfEngine } from './host-limits.ts';
import { linkRules } from './link-rules.ts';
import { isBridgeHere, reachPorts, type Link } from './links.ts';
import { MirrorAddresses, type Mirror } from './mirrors.ts';
import { Nft } from './nft.ts';
import { PacketTables } from './packet-tables.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { isListedKind, type ListedKind, type NetworkKind } from '../engine/names.ts';

/** Returns a status in which nothing was refused yet. */
const unrefused = (lack: string | null, linkLack: string | null): EgressStatus => ({
  lack,
  linkLack,
  proxyLack: null,
  refused: new Map(),
  refusedRequests: new Map(),
});

/** The interval at which the rules are loaded again, in ms, in case something else has changed them. */
const RELOAD_MS = 60_000;
/** The engine's name servers are looked up once in this many loads. */
const NAMESERVER_LOADS = 10;

export interface EgressOptions {
  docker: Dockerode;
  identities: ContainerIdentities;
  mode: EgressMode;
  /** The private addresses that agents may reach in addition. */
  open: readonly OpenRange[];
  /** The hosts that builds may reach, whatever the mode. */
  mirrors?: readonly Mirror[];
  /** Throws if the engine is not supported, so that no rules are loaded on it. */
  ready?: () => Promise<void>;
  /** The operator's image of the programs that enforce the rules; null stands for the machine's own programs, or our Dockerfile. */
  image: string | null;
  /** Receives a message when the rules can't be enforced, when they can be again, and about kernel limits that are too low. */
  logger?: { log(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** Keeps the rules in place. See E1 to E3. */
export class AgentEgress {
  /** Runs packet rules on the engine's machine. */
  readonly nft: Nft;
  private readonly images: EgressImages;
  private readonly tables: PacketTables;
  private covered: ReadonlySet<string> = new Set();
  /** E2: The number of times that the rules came into doubt; `heard` is that number when the last load began. */
  private invalidations = 1;
  private settledInvalidations = 0;
  private loading: Promise<void> | null = null;
  private nameservers: string[] = [];
  private loads = 0;
  private status: EgressStatus = unrefused(null, null);
  private readonly proxy: EgressProxy;
  private readonly mirrors: MirrorAddresses;
  private readonly limits: HostLimits;
  private hasListed = false;
  private links: readonly Link[] = [];
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly options: EgressOptions) {
    this.images = new EgressImages(options.docker, options.image, () => this.invalidate());
    this.nft = new Nft(options.docker, options.identities.instance, this.images);
    this.tables = new PacketTables(this.nft, options.identities.instance);
    this.mirrors = new MirrorAddresses(options.mirrors ?? []);
    this.limits = new HostLimits(
      (file) => this.readOfEngine(file),
      (warning) => this.logLimits(warning),
    );
    this.proxy = new EgressProxy({ ...options, images: this.images });
  }

  /** Resolves when the rules cover the bridge, or it is known and reported that they can't. Throws `RuntimeUnavailable`. */
  async cover(bridge: string): Promise<void> {
    if (!this.covered.has(bridge)) this.invalidations += 1;
    await this.settle();
    // Only an agent that is about to start waits for the image of the programs to be built.
    if (!(await this.images.ended())) return;
    this.invalidations += 1;
    await this.settle();
  }

  /** Resolves when the rules are in place, or it is known and reported that they can't be. Throws `RuntimeUnavailable`. */
  async settle(): Promise<void> {
    if (this.settledInvalidations !== this.invalidations) await this.load();
  }

  /** Returns the addresses for one more agent with a list of names. Throws as `EgressProxy.assign` does. */
  assign(kind: ListedKind): Promise<AssignedAddresses> {
    return this.proxy.assign(kind);
  }

  /** Resolves when the proxy knows the agents that were created before the call. */
  async settleListed(kind: ListedKind): Promise<void> {
    this.status = { ...this.status, ...(await this.settleProxy()) };
    this.assertEnforceable(kind);
  }

  /** E3: Throws `RuntimeRefused` if the limits promised for an agent on such a network could not be enforced. */
  assertEnforceable(kind: NetworkKind | undefined): void {
    const { lack, proxyLack } = this.status;
    if (isListedKind(kind) && this.isUnenforced)
      throw new RuntimeRefused(`An agent can't be held to a list of names: ${lack ?? proxyLack}.`);
    if (kind === 'published-closed' && lack !== null)
      throw new RuntimeRefused(`An agent can't be kept from what it may not reach: ${lack}.`);
  }

  /** The limits of the host's kernel that should have other values, as a sentence safe to show to anyone; null if there are none. */
  get hostWarning(): string | null {
    return this.limits.warning;
  }

  /** The value is true if builds may reach more hosts than agents. */
  get hasMirrors(): boolean {
    return (this.options.mirrors ?? []).length > 0;
  }

  get isUnenforced(): boolean {
    return this.status.lack !== null || this.status.proxyLack !== null;
  }

  /** Notes that the engine may have restarted, and loads the rules again. */
  invalidate(): void {
    this.invalidations += 1;
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

  /** E2: Loads the rules. A load that began before the call may have listed the networks too early, so another one follows it. */
  private async load(): Promise<void> {
    if (this.loading !== null) await this.loading.catch(() => undefined);
    this.loading ??= this.loadNow().finally(() => (this.loading = null));
    return this.loading;
  }

  private async loadNow(): Promise<void> {
    clearTimeout(this.timer);
    try {
      const { invalidations: doubts } = this;
      await this.options.ready?.();
      const bridges = await agentBridges(this.options.docker, this.options.identities.instance);
      this.hasListed = bridges.listed.length > 0;
      this.links = bridges.links;
      const status = await this.apply(bridges);
      this.applyStatus(this.hasListed && status.lack === null ? { ...status, ...(await this.settleProxy()) } : status);
      this.covered = new Set([...[bridges.open, bridges.closed, bridges.builds].flat(), ...bridges.listed.map(({ bridge }) => bridge)]);
      this.settledInvalidations = doubts;
      // Without a network no agents share the limits yet, and it is unknown whether the engine is on this machine.
      if (bridges.links.length > 0) await this.limits.refresh().catch(() => undefined);
    } finally {
      clearTimeout(this.timer);
      if (!this.closed) this.timer = setTimeout(() => void this.load().catch(() => undefined), RELOAD_MS).unref();
    }
  }

  private readOfEngine(file: string): Promise<string | null> {
    const bridges = this.links.map(({ bridge }) => bridge);
    return readOfEngine(file, bridges, (path) => this.nft.hostFile(path));
  }

  private async settleProxy(): Promise<Pick<EgressStatus, 'proxyLack' | 'refusedRequests'>> {
    try {
      return { proxyLack: null, refusedRequests: await this.proxy.update() };
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      return { proxyLack: error.message, refusedRequests: new Map() };
    }
  }

  private async apply(bridges: Bridges): Promise<EgressStatus> {
    try {
      const rules = await this.egressRules(bridges);
      const { printed, linkLack } = await this.tables.load(rules, linkRules(this.options.identities.instance, bridges));
      if (linkLack === null) await this.reachPorts(bridges.links);
      return { ...unrefused(null, linkLack), refused: refusedPackets(printed) };
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      this.loads = 0;
      return unrefused(error.message, error.message);
    }
  }

  /** Has the host send one datagram to all ports of the links, so that the rules learn these ports. */
  private async reachPorts(links: readonly Link[]): Promise<void> {
    const areHere = await Promise.all(links.map(({ bridge }) => isBridgeHere(bridge)));
    await reachPorts(links.filter((_, at) => areHere[at]));
    await this.nft.reachPorts(links.filter((_, at) => !areHere[at]));
  }

  private async egressRules(bridges: Bridges): Promise<string> {
    const { identities, mode, open } = this.options;
    const asksNames = mode === 'internet' || (mode === 'none' && this.hasMirrors);
    if (asksNames && this.loads++ % NAMESERVER_LOADS === 0) this.nameservers = await this.nft.nameservers();
    return egressRules(identities.instance, mode, bridges, {
      nameservers: this.nameservers,
      ranges: open,
      mirrors: mode === 'all' || bridges.builds.length === 0 ? [] : await this.mirrors.read(),
      proxies: this.hasListed ? await this.proxy.sources() : [],
    });
  }

  private applyStatus(status: EgressStatus): void {
    const { lack, linkLack } = this.status;
    if (status.lack !== lack)
      this.logChange(
        status.lack,
        'what agents may reach is enforced again',
        'WHAT AGENTS MAY REACH IS NOT ENFORCED (MOORING_AGENT_EGRESS)',
      );
    if (status.linkLack !== linkLack)
      this.logChange(
        status.linkLack,
        'agents are kept from each other’s frames again',
        'AGENTS ARE NOT KEPT FROM EACH OTHER’S FRAMES ON THE LINK THAT THEY SHARE',
      );
    this.status = status;
  }

  private logLimits(warning: string | null): void {
    this.logChange(
      warning,
      'the limits of the kernel on the engine’s machine are as they should be again',
      'LIMITS OF THE KERNEL ON THE ENGINE’S MACHINE LET ONE AGENT TAKE WHAT ALL OF THEM NEED, OR KEEP BROWSERS FROM THEIR SANDBOX',
    );
  }

  private logChange(lack: string | null, isHeld: string, isNot: string): void {
    if (lack === null) this.options.logger?.log({}, isHeld);
    else this.options.logger?.warn({ reason: lack }, isNot);
  }
}
