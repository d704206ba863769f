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
 * The length of the prefix of networks' ranges. A bridge has room for as many running agents as the smaller one has addresses. Agents with a list keep
 * theirs while they sleep.
 */
const bitsOf = (kind: NetworkKind): number => (isListedKind(kind) ? 20 : 22);

interface Situation {
  mode: EgressMode;
  addresses: AgentAddresses;
  /** The value is true if the engine is on another machine, whose networks can't be here. */
  isFar: boolean;
}

/** The agents' own bridges, on which they can't reach each other. They are created on demand, and again after their removal. */
export class AgentNetworks {
  private readonly making = new Map<NetworkKind, Promise<string>>();
  /** The kinds of networks whose range was compared with the one that they would get today. */
  private readonly compared = new Set<NetworkKind>();
  private published: Promise<boolean> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly egress: AgentEgress,
    private readonly situation: Situation,
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
   * Returns whether agents are reached by published ports, because their own addresses lead nowhere from here. That is decided once for each
   * connection to the engine.
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

  /** Decides anew the next time, since another engine may answer at the same place. */
  forgetDecision(): void {
    this.published = null;
  }

  private async decide(): Promise<boolean> {
    const { mode, addresses, isFar } = this.situation;
    if (addresses !== 'auto') return addresses === 'published';
    if (isFar || !hasSocketFile(this.docker)) return true;
    // Nobody who asks for the way to an agent waits for the rules.
    return !(await isBridgeHere(await this.stand(mode === 'none' ? 'closed' : 'open')));
  }

  /**
   * Returns the network's bridge when the network exists and the egress rules cover it. Throws `RuntimeRefused` if the name belongs to a
   * foreign network.
   */
  ensure(kind: NetworkKind): Promise<string> {
    const making = this.making.get(kind) ?? this.make(kind).finally(() => this.making.delete(kind));
    this.making.set(kind, making);
    return making;
  }

  private async make(kind: NetworkKind): Promise<string> {
    const bridge = await this.stand(kind);
    // The proxy of a listed network is on the open one, too.
    if (isListedKind(kind)) await this.ensure('open');
    await this.egress.cover(bridge);
    return bridge;
  }

  /** Creates the network if it does not exist, and returns its bridge. */
  private async stand(kind: NetworkKind): Promise<string> {
    const name = networkName(this.instance, kind);
    const settled = async (): Promise<Dockerode.NetworkInspectInfo | null> => {
      const standing = await networksOf(this.docker, this.instance, kind);
      // An engine allows several networks of one name, but then does not resolve the name. Callers that created them at the same time keep
      // the oldest.
      if (standing.length > 1) await this.removeAllButOne(standing);
      else if (standing[0] === undefined) await this.create(name, kind);
      else if (!(await this.removeLarger(kind, standing[0]))) return standing[0];
      return null;
    };
    const network = await until(settled, TRIES_MAX, 20);
    if (network === null) throw new RuntimeRefused(`The network ${name} can't be made.`);
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
      // A range may be taken, and a name made, by somebody else meanwhile.
      call(null, (abortSignal) => this.docker.createNetwork({ ...network, ...more, abortSignal })).catch(ignoring(403, 409));
    // The engine's own ranges are so large that one agent could fill the host's table of neighbours with questions for addresses of its network, and
    // agents with fixed addresses need a range that was named. The engine chooses a free range first, of which the network gets the beginning.
    const draft = `${name}-draft`;
    await make({ Name: draft });
    // Callers at the same time may have made several of that name, which only their ids tell apart; and one may have been left by a crash.
    const filters = JSON.stringify({ name: [draft], label: [`${labels.instance}=${this.instance}`] });
    const [drafted, ...others] = await call(null, (abortSignal) => this.docker.listNetworks({ filters, abortSignal }));
    if (drafted === undefined) return;
    for (const { Id } of [drafted, ...others]) await this.remove(Id);
    const range = subnetOf(drafted);
    await make(range === '' ? {} : { IPAM: { Driver: 'default', Config: [{ Subnet: beginningOf(range, bitsOf(kind)) }] } });
  }

  /**
   * Removes a network of an earlier release, whose range is larger than one is made with now, if no container has it. One that sleeps would have to be
   * made anew for another network, and lose the volumes that its image declares.
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

  /** Removes all but the oldest, or also the oldest if a container runs on another one. */
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
