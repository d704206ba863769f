import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../runtime.ts';
import { call, statusOf, until } from './engine.ts';
import { bears, labels, networkName } from './names.ts';

const apart = { 'com.docker.network.bridge.enable_icc': 'false' };
const tries = 10;

/** The agents' own bridge, on which they can't reach each other. Made on demand, and again where somebody removed it. */
export class AgentNetwork {
  private readonly name: string;
  private making: Promise<void> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
  ) {
    this.name = networkName(instance);
  }

  /** Throws `RuntimeRefused` where the name is somebody else's. */
  ensure(): Promise<void> {
    this.making ??= this.make().finally(() => (this.making = null));
    return this.making;
  }

  private async make(): Promise<void> {
    const settled = async (): Promise<true | null> => {
      const standing = await this.standing();
      if (standing.length === 1) return true;
      // An engine lets several networks bear one name, and then takes the name for none: whoever made them at once leaves the oldest.
      if (standing.length > 1) await this.removeAllButOne(standing);
      else await this.create();
      return null;
    };
    if ((await until(settled, tries, 20)) === null) throw new RuntimeRefused(`The network ${this.name} can't be made.`);
  }

  /** Oldest first. */
  private async standing(): Promise<Dockerode.NetworkInspectInfo[]> {
    const filters = JSON.stringify({ name: [this.name] });
    const listed = await call(null, (abortSignal) => this.docker.listNetworks({ filters, abortSignal }));
    const found = listed.filter(({ Name }) => Name === this.name);
    if (!found.every(({ Labels }) => bears(Labels, { [labels.instance]: this.instance })))
      throw new RuntimeRefused(`A network named ${this.name} exists that this installation did not make.`);
    if (!found.every(({ Options }) => bears(Options, apart)))
      throw new RuntimeRefused(`The network ${this.name} lets agents reach each other: remove it.`);
    return found.toSorted((a, b) => (a.Created + a.Id < b.Created + b.Id ? -1 : 1));
  }

  private async create(): Promise<void> {
    const network = {
      Name: this.name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Options: apart,
      Labels: { [labels.instance]: this.instance },
    };
    await call(null, (abortSignal) => this.docker.createNetwork({ ...network, abortSignal })).catch(ignore(409));
  }

  /** The oldest stays, unless a container runs on another one. */
  private async removeAllButOne([oldest, ...others]: Dockerode.NetworkInspectInfo[]): Promise<void> {
    let kept = true;
    for (const { Id } of others) kept = (await this.remove(Id)) && kept;
    if (!kept && oldest !== undefined) await this.remove(oldest.Id);
  }

  /** Whether it is gone: with containers running on it the engine keeps it. */
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
