import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../runtime.ts';
import { call, statusOf, until } from './engine.ts';
import { bears, labels, networkName } from './names.ts';

const apart = { 'com.docker.network.bridge.enable_icc': 'false' };

/** The agents' own bridge, on which they can't reach each other. Made on demand, and again where somebody removed it. */
export class AgentNetwork {
  private readonly docker: Dockerode;
  private readonly instance: string;
  private making: Promise<void> | null = null;

  constructor(docker: Dockerode, instance: string) {
    this.docker = docker;
    this.instance = instance;
  }

  /** One at a time: an engine lets two networks bear one name. Throws `RuntimeRefused` where the name is somebody else's. */
  ensure(): Promise<void> {
    this.making ??= this.make().finally(() => (this.making = null));
    return this.making;
  }

  private async make(): Promise<void> {
    const made = await until(async () => ((await this.stands()) ? true : this.create()), 5, 50);
    if (made === null) throw new RuntimeRefused(`The network ${networkName(this.instance)} can't be made.`);
  }

  private async stands(): Promise<boolean> {
    const name = networkName(this.instance);
    const found = await call(null, () => this.docker.getNetwork(name).inspect()).catch((error: unknown) => {
      if (statusOf(error) === 404) return null;
      throw error;
    });
    if (found === null) return false;
    if (!bears(found.Labels, { [labels.instance]: this.instance }))
      throw new RuntimeRefused(`A network named ${name} exists that this installation did not make.`);
    if (!bears(found.Options, apart)) throw new RuntimeRefused(`The network ${name} lets agents reach each other; remove it.`);
    return true;
  }

  private async create(): Promise<true | null> {
    const name = networkName(this.instance);
    try {
      await call(null, (abortSignal) =>
        this.docker.createNetwork({
          Name: name,
          CheckDuplicate: true,
          Driver: 'bridge',
          Options: apart,
          Labels: { [labels.instance]: this.instance },
          abortSignal,
        }),
      );
      return true;
    } catch (error) {
      // Another process made it in between: look again.
      if (statusOf(error) === 409) return null;
      throw error;
    }
  }
}
