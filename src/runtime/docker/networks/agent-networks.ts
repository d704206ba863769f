/**
 * The bridges of agents, on which they can't reach each other.
 *
 * Owns: the creation of the networks on demand, also after somebody removed them, and the decision whether agents are reached by published
 * ports. Does not own the rules on them (`AgentEgress`).
 *
 * N1  A network is used only once the egress rules cover its bridge.
 * N2  Of several networks of one name, created by replicas at the same time, the oldest stays, unless containers run on another one.
 * N3  A network's range is small: in a larger one an agent could fill the host's neighbour table. One of an earlier release that is larger
 *     is replaced once no container has it.
 */
import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, ignoring, statusOf, until } from '../engine/engine.ts';
import { hasSocketFile } from '../engine/local-engine.ts';
import type { AgentEgress } from './agent-egress.ts';
import { networkOptions, networksOf } from './bridges.ts';
import { bridgeOf, isBridgeHere, subnetOf } from './links.ts';
import { beginningOf, isLarger } from './listed-addresses.ts';
import { isInternal, isListedKind, labels, networkName, type NetworkKind } from '../engine/names.ts';
import type { AgentAddresses, EgressMode } from '../../../kernel/config/config.ts';
import type { AgentEgress as WantedEgress } from '../../../kernel/network/allow-list.ts';

const TRIES_MAX = 10;
/**
 * N3: The prefix length of a network's range. A bridge can have as many running agents as the smaller range has addresses. Agents with a
 * list keep their addresses while they sleep, so their range is larger.
 */
const bitsOf = (kind: NetworkKind): number => (isListedKind(kind) ? 20 : 22);

interface AddressingOptions {
  mode: EgressMode;
  addresses: AgentAddresses;
  /** The value is true if the engine is on another machine, whose networks can't be reached directly from here. */
  isFar: boolean;
}

/** The networks of agents on one engine. See N1 to N3. */
export class AgentNetworks {
  private readonly making = new Map<NetworkKind, Promise<string>>();
  /** N3: The kinds of networks whose range was compared with the current one. */
  private readonly compared = new Set<NetworkKind>();
  private published: Promise<boolean> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly egress: AgentEgress,
    private readonly situation: AddressingOptions,
  ) {}

  /** The kind of network for builds, on which no agent ever is. */
  readonly kindForBuilds = 'builds' satisfies NetworkKind;

  /** Returns the kind of network for an agent. */
  async kindFor(egress: WantedEgress): Promise<NetworkKind> {
    const { mode } = this.situation;
    if (mode !== 'none' && egress === 'internet') return 'open';
    const kind = mode === 'none' || egress === 'none' ? 'closed' : 'listed';
    return (await this.isPublished()) ? `published-${kind}` : kind;
  }

  /**
   * Returns whether agents are reached by published ports, because their own addresses can't be reached from here. This is decided once for
   * each connection to the engine.
   */
  isPublished(): Promise<boolean> {
    if (this.published === null) {
      const published = this.decide();
      this.published = published;
      published.catch(() => {
        if (this.published === published) this.published = null;
      });
    }
    return this.published;
  }

  /** Decides again the next time, since another engine may respond at the same address. */
  resetDecision(): void {
    this.published = null;
  }

  private async decide(): Promise<boolean> {
    const { mode, addresses, isFar } = this.situation;
    if (addresses !== 'auto') return addresses === 'published';
    if (isFar || !hasSocketFile(this.docker)) return true;
    // A caller that needs the address of an agent does not wait for the rules.
    return !(await isBridgeHere(await this.ensureBridge(mode === 'none' ? 'closed' : 'open')));
  }

  /**
   * N1: Returns the network's bridge once the network exists and the egress rules cover it. Throws `RuntimeRefused` if the name belongs to
   * a foreign network.
   */
  ensure(kind: NetworkKind): Promise<string> {
    const making = this.making.get(kind) ?? this.ensureCovered(kind).finally(() => this.making.delete(kind));
    this.making.set(kind, making);
    return making;
  }

  private async ensureCovered(kind: NetworkKind): Promise<string> {
    const bridge = await this.ensureBridge(kind);
    // The proxy of a listed network is on the open one, too.
    if (isListedKind(kind)) await this.ensure('open');
    await this.egress.cover(bridge);
    return bridge;
  }

  /** Creates the network if it does not exist, and returns its bridge. */
  private async ensureBridge(kind: NetworkKind): Promise<string> {
    const name = networkName(this.instance, kind);
    const settled = async (): Promise<Dockerode.NetworkInspectInfo | null> => {
      const standing = await networksOf(this.docker, this.instance, kind);
      // N2: An engine allows several networks of one name, but then does not resolve the name.
      if (standing.length > 1) await this.removeAllButOne(standing);
      else if (standing[0] === undefined) await this.create(name, kind);
      else if (!(await this.removeLarger(kind, standing[0]))) return standing[0];
      return null;
    };
    const network = await until(settled, TRIES_MAX, 20);
    if (network === null) throw new RuntimeRefused(`The network ${name} can't be created.`);
    return bridgeOf(network);
  }

  private async create(name: string, kind: NetworkKind): Promise<void> {
    const network = {
      Name: name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Internal: isInternal(kind),
      Options: networkOptions(kind),
      Labels: { [labels.instance]: this.instance },
    };
    const make = (more: Partial<Dockerode.NetworkCreateOptions>): Promise<unknown> =>
      // Another process may have taken the range, or created the name, meanwhile.
      call(null, (abortSignal) => this.docker.createNetwork({ ...network, ...more, abortSignal })).catch(ignoring(403, 409));
    // N3: The engine chooses a free range for a draft network first, and the network gets the beginning of that range. With the whole
    // range one agent could fill the host's neighbour table, and fixed addresses need an explicit range.
    const draft = `${name}-draft`;
    await make({ Name: draft });
    // Concurrent callers may have created several drafts of that name, which differ only by id, and a crash may have left one.
    const filters = JSON.stringify({ name: [draft], label: [`${labels.instance}=${this.instance}`] });
    const [drafted, ...others] = await call(null, (abortSignal) => this.docker.listNetworks({ filters, abortSignal }));
    if (drafted === undefined) return;
    for (const { Id } of [drafted, ...others]) await this.remove(Id);
    const range = subnetOf(drafted);
    await make(range === '' ? {} : { IPAM: { Driver: 'default', Config: [{ Subnet: beginningOf(range, bitsOf(kind)) }] } });
  }

  /**
   * N3: Removes a network of an earlier release with a larger range, if no container has it. A sleeping container would have to be created
   * again for another network, and would lose the volumes that its image declares.
   */
  private async removeLarger(kind: NetworkKind, network: Dockerode.NetworkInspectInfo): Promise<boolean> {
    const range = subnetOf(network);
    if (this.compared.has(kind) || range === '') return false;
    this.compared.add(kind);
    if (!isLarger(range, bitsOf(kind))) return false;
    const filters = JSON.stringify({ network: [network.Name] });
    const users = await call(null, (abortSignal) => this.docker.listContainers({ all: true, limit: 1, filters, abortSignal }));
    return users.length === 0 && this.remove(network.Id);
  }

  /** N2: Removes all but the oldest, or also the oldest if a container runs on another one. */
  private async removeAllButOne([oldest, ...others]: Dockerode.NetworkInspectInfo[]): Promise<void> {
    let kept = true;
    for (const { Id } of others) kept = (await this.remove(Id)) && kept;
    if (!kept && oldest !== undefined) await this.remove(oldest.Id);
  }

  /** Removes the network. Returns whether it is gone; the engine keeps it while containers run on it. */
  private async remove(id: string): Promise<boolean> {
    try {
      await call(null, () => this.docker.getNetwork(id).remove()).catch(ignoring(404));
      return true;
    } catch (error) {
      if (statusOf(error) === 403) return false;
      throw error;
    }
  }
}
