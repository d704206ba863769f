import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../runtime.ts';
import { call, statusOf, until } from './engine.ts';
import type { AgentEgress } from './agent-egress.ts';
import { ISOLATED, bridgeOf, networksNamed } from './bridges.ts';
import { labels, networkName, type NetworkKind } from './names.ts';

const tries = 10;

/** The agents' own bridges, on which they can't reach each other. They are created on demand, and again after their removal. */
export class AgentNetworks {
  private readonly making = new Map<NetworkKind, Promise<void>>();

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly egress: AgentEgress,
  ) {}

  /** Resolves when the network exists and the egress rules cover it. Throws `RuntimeRefused` if the name belongs to a foreign network. */
  ensure(kind: NetworkKind): Promise<void> {
    const making = this.making.get(kind) ?? this.make(kind).finally(() => this.making.delete(kind));
    this.making.set(kind, making);
    return making;
  }

  private async make(kind: NetworkKind): Promise<void> {
    const name = networkName(this.instance, kind);
    const settled = async (): Promise<Dockerode.NetworkInspectInfo | null> => {
      const standing = await networksNamed(this.docker, this.instance, name);
      // An engine allows several networks of one name, but then does not resolve the name. Callers that created them at the same time keep
      // the oldest.
      if (standing.length > 1) await this.removeAllButOne(standing);
      else if (standing.length === 0) await this.create(name, kind);
      return standing.length === 1 ? (standing[0] ?? null) : null;
    };
    const network = await until(settled, tries, 20);
    if (network === null) throw new RuntimeRefused(`The network ${name} can't be made.`);
    await this.egress.cover(bridgeOf(network));
  }

  private async create(name: string, kind: NetworkKind): Promise<void> {
    const network = {
      Name: name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Internal: kind === 'closed',
      Options: ISOLATED,
      Labels: { [labels.instance]: this.instance },
    };
    await call(null, (abortSignal) => this.docker.createNetwork({ ...network, abortSignal })).catch(ignore(409));
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
      await call(null, () => this.docker.getNetwork(id).remove()).catch(ignore(404));
      return true;
    } catch (error) {
      if (statusOf(error) === 403) return false;
      throw error;
    }
  }
}

const ignore =
  (status: number) =>
  (error: unknown): void => {
    if (statusOf(error) !== status) throw error;
  };
