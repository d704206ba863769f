/**
 * The proxy container of agents that may reach only a list of names.
 *
 * Owns: that container, and the table of lists in it. Does not own the lists: they are labels of the agents' containers, and the code among
 * these labels proves that they are unchanged since the container was created.
 *
 * P1  The proxy runs exactly while there is an agent with a list.
 * P2  A list and an address belong to a container from its creation to its removal. Two containers with one address reach nothing.
 * P3  After writing a table, each replica lists the agents once more, since another one may have written an older table meanwhile.
 * P4  A proxy with another program is replaced once by each process, so replicas of two releases don't replace each other's for ever.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type Dockerode from 'dockerode';
import type { OpenRange } from '../../../kernel/network/open-ranges.ts';
import { privateRanges4 } from '../../../kernel/network/private-addresses.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { filesInto } from '../engine/archive.ts';
import { networksOf } from './bridges.ts';
import { nodeProgram, type EgressImages } from './egress-images.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { call, statusOf, until } from '../engine/engine.ts';
import { runInOwn } from '../engine/execs.ts';
import { freeAddress, PROXY_PORT, proxyAddress } from './listed-addresses.ts';
import { macOf, subnetOf } from './links.ts';
import type { ContainerIdentities, KnownContainer } from '../engine/container-identities.ts';
import { hasLabels, labels, proxyName, type Labels, type ListedKind } from '../engine/names.ts';
import { removeContainer } from '../engine/own-containers.ts';

const program = fileURLToPath(new URL('./egress-proxy.mjs', import.meta.url));
const folder = '/egress';
const countsFile = `${folder}/counts/refused.json`;
const COUNTS_BYTES = 64 * 1024;
/** Programs that run in the container of the proxy. */
const node = [nodeProgram, '--max-old-space-size=32', '-e'];
const writeTable = `const fs = require('node:fs');
fs.writeFileSync('${folder}/table.json.new', fs.readFileSync(0));
fs.renameSync('${folder}/table.json.new', '${folder}/table.json');`;
const printCounts = `const fs = require('node:fs');
if (fs.existsSync('${countsFile}')) process.stdout.write(fs.readFileSync('${countsFile}'));`;
const STOPPED = new Set(['created', 'exited']);
const ATTEMPTS_MAX = 20;
const RETRY_MS = 50;

/** The addresses of an agent with a list of names, and of the proxy through which it reaches them. */
export interface AssignedAddresses {
  address: string;
  proxy: string;
}

export interface EgressProxyOptions {
  docker: Dockerode;
  identities: ContainerIdentities;
  /** The private addresses that agents may reach. */
  open: readonly OpenRange[];
  images: Pick<EgressImages, 'forNode'>;
}

type Requests = ReadonlyMap<string, number>;
type ListedAgent = KnownContainer & { Labels: Labels };

/** Keeps the proxy running and its table current. See P1 to P4. */
export class EgressProxy {
  /** The table that this process wrote last, and the container that it wrote it to. */
  private written = { table: '', container: '' };
  /** P4: A proxy with another program is replaced only until this process has found or created one. */
  private isFirst = true;
  private updating: Promise<Requests> | null = null;

  private readonly docker: Dockerode;
  private readonly identities: ContainerIdentities;
  private readonly instance: string;

  constructor(private readonly options: EgressProxyOptions) {
    this.docker = options.docker;
    this.identities = options.identities;
    this.instance = options.identities.instance;
  }

  /** Returns the addresses for one more agent. Throws `RuntimeRefused` if the network is gone or has no free address. */
  async assign(kind: ListedKind): Promise<AssignedAddresses> {
    const [[network], agents] = await Promise.all([networksOf(this.docker, this.instance, kind), this.agents()]);
    if (network === undefined) throw new RuntimeRefused('The network of agents with a list of names is gone.');
    const subnet = subnetOf(network);
    const address = freeAddress(subnet, new Set(agents.map(({ Labels }) => Labels[labels.address] ?? '')));
    return { address, proxy: `http://${proxyAddress(subnet)}:${PROXY_PORT}` };
  }

  /** Returns the addresses from which the proxy connects; none while it does not run. */
  async sources(): Promise<string[]> {
    const found = await this.find();
    const networks = Object.values(found?.NetworkSettings.Networks ?? {});
    return networks.map(({ IPAddress }) => IPAddress).filter((address) => address !== '');
  }

  /** P1: Starts the proxy, or removes it if no agent needs it, and writes its table. Returns the number of refused requests, by reason. */
  async update(): Promise<Requests> {
    // An update that began before the call may have listed the agents too early, so another one follows it.
    if (this.updating !== null) await this.updating.catch(() => undefined);
    this.updating ??= this.updateNow().finally(() => (this.updating = null));
    return this.updating;
  }

  private async updateNow(): Promise<Requests> {
    const settled = await until(() => this.tryUpdate(), ATTEMPTS_MAX, RETRY_MS);
    if (settled === null) throw new RuntimeRefused('the proxy was changed by another process again and again');
    return settled;
  }

  /** Returns null if another replica changed the proxy, or the agents, meanwhile. */
  private async tryUpdate(): Promise<Requests | null> {
    // The labels of an outdated container, which is about to be replaced, are not proven.
    const agents = (await this.agents()).filter(({ outdated }) => outdated === undefined);
    if (agents.length === 0) {
      await this.remove();
      return new Map();
    }
    try {
      const container = await this.running(this.tableOf(agents));
      return container === null ? null : await this.readRefused(container);
    } catch (error) {
      if (statusOf(error) === 404 || statusOf(error) === 409) return null;
      throw error;
    }
  }

  private async agents(): Promise<ListedAgent[]> {
    const filters = JSON.stringify({ label: [`${labels.instance}=${this.instance}`, labels.agent, labels.allow] });
    const listed = await call(null, (abortSignal) => this.docker.listContainers({ all: true, filters, abortSignal }));
    // The labels of any other container may come from an image.
    return listed.flatMap(({ Names, Labels }) => {
      const known = this.identities.identify(Names, Labels);
      return known === null ? [] : [{ ...known, Labels }];
    });
  }

  private tableOf(agents: readonly ListedAgent[]): string {
    const lists = new Map<string, string[]>();
    for (const { Labels } of agents) {
      const { [labels.address]: address = '', [labels.allow]: allow = '[]' } = Labels;
      // P2: Should two containers ever have one address, neither gets what the other may reach.
      lists.set(address, lists.has(address) ? [] : namesIn(allow));
    }
    const open = this.options.open.filter(({ family }) => family === 'ip').map(({ range, port }) => ({ range, port }));
    const sorted = [...lists].toSorted(([one], [other]) => (one < other ? -1 : 1));
    return JSON.stringify({ agents: Object.fromEntries(sorted), closed: privateRanges4, open });
  }

  /** Returns the running proxy if it has this table; null if it had another one until now, or can't be started. */
  private async running(table: string): Promise<Dockerode.Container | null> {
    const [ways, [open], source] = await Promise.all([
      this.listedNetworks(),
      networksOf(this.docker, this.instance, 'open'),
      readFile(program),
    ]);
    const [first] = ways;
    if (first === undefined || open === undefined) throw new RuntimeRefused('The networks of agents are gone.');
    const networks = { [labels.proxy]: [...ways, open].map(({ Id }) => Id).join(' ') };
    const wanted = {
      ...networks,
      [labels.program]: createHash('sha256')
        .update(source)
        .update(macOf(endpointOf(first).address))
        .digest('hex'),
    };
    const found = await this.find();
    if (found === null) {
      const made = await this.create(first, wanted, source);
      for (const network of ways.slice(1)) await this.connect(made, network, endpointOf(network).settings);
      await this.connect(made, open, {});
      await filesInto(made, folder, tarOf([{ name: 'table.json', type: 'file', mode: 0o644, content: table }]));
      this.written = { table, container: made.id };
      await call(null, (abortSignal) => made.start({ abortSignal }));
      return null;
    }
    if (!hasLabels(found.Config.Labels, this.isFirst ? wanted : networks) || !(await this.started(found))) {
      await this.remove();
      return null;
    }
    this.isFirst = false;
    const container = this.docker.getContainer(found.Id);
    if (this.written.container === found.Id && this.written.table === table) return container;
    // P3: A replica that listed the agents earlier may write its table later.
    await this.writeTable(container, table);
    return null;
  }

  /** Returns the networks of agents with a list of names: one, or two while agents are still on the one of the other kind of address. */
  private async listedNetworks(): Promise<Dockerode.NetworkInspectInfo[]> {
    const kinds: ListedKind[] = ['listed', 'published-listed'];
    const found = await Promise.all(kinds.map((kind) => networksOf(this.docker, this.instance, kind)));
    return found.flatMap(([oldest]) => (oldest === undefined ? [] : [oldest]));
  }

  private async connect({ id }: Dockerode.Container, network: Dockerode.NetworkInspectInfo, EndpointConfig: object): Promise<void> {
    await call(null, () => this.docker.getNetwork(network.Id).connect({ Container: id, EndpointConfig }));
  }

  private async find(): Promise<Dockerode.ContainerInspectInfo | null> {
    const name = proxyName(this.instance);
    try {
      const found = await call(null, (abortSignal) => this.docker.getContainer(name).inspect({ abortSignal }));
      if (hasLabels(found.Config.Labels, { [labels.instance]: this.instance })) return found;
    } catch (error) {
      if (statusOf(error) === 404) return null;
      throw error;
    }
    throw new RuntimeRefused(`A container named ${name} exists that this installation did not make.`);
  }

  /** Starts a container that has ended. Returns false if it can't be started. */
  private async started({ Id, State }: Dockerode.ContainerInspectInfo): Promise<boolean> {
    if (!STOPPED.has(State.Status)) return State.Running && !State.Paused;
    // A container whose creation was interrupted has no table.
    if (State.Status === 'created') return false;
    try {
      await call(null, (abortSignal) => this.docker.getContainer(Id).start({ abortSignal }));
    } catch (error) {
      if (error instanceof RuntimeRefused && statusOf(error) !== 304) return false;
      throw error;
    }
    return true;
  }

  private async create(network: Dockerode.NetworkInspectInfo, wanted: Labels, source: Buffer): Promise<Dockerode.Container> {
    const { settings } = endpointOf(network);
    const options: Dockerode.ContainerCreateOptions = {
      name: proxyName(this.instance),
      Image: await this.options.images.forNode(),
      Entrypoint: [nodeProgram, '--max-old-space-size=192', `${folder}/proxy.mjs`, folder, String(PROXY_PORT)],
      User: '65534:65534',
      MacAddress: settings.MacAddress,
      // The operator's image may define a health check.
      Healthcheck: { Test: ['NONE'] },
      Labels: { [labels.instance]: this.instance, ...wanted },
      HostConfig: {
        NetworkMode: network.Name,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges:true'],
        Memory: 320 * 1024 * 1024,
        MemorySwap: 320 * 1024 * 1024,
        PidsLimit: 64,
        // The engine restarts it while no service runs.
        RestartPolicy: { Name: 'always' },
        LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
      },
      NetworkingConfig: { EndpointsConfig: { [network.Name]: settings } },
    };
    const container = await call(null, (abortSignal) => this.docker.createContainer({ ...options, abortSignal }));
    const tar = tarOf([
      { name: 'egress', type: 'directory', mode: 0o755 },
      { name: 'egress/counts', type: 'directory', mode: 0o777 },
      { name: 'egress/proxy.mjs', type: 'file', mode: 0o644, content: source },
    ]);
    await filesInto(container, '/', tar);
    return container;
  }

  /** Writes the table, with a program in the container. */
  private async writeTable(container: Dockerode.Container, table: string): Promise<void> {
    await runInOwn(container, [...node, writeTable], table, COUNTS_BYTES);
    this.written = { table, container: container.id };
  }

  private async readRefused(container: Dockerode.Container): Promise<Requests> {
    const printed = (await runInOwn(container, [...node, printCounts], '', COUNTS_BYTES)).toString();
    // Nothing was refused yet if there is no file.
    return new Map(Object.entries(printed === '' ? {} : (JSON.parse(printed) as Record<string, number>)));
  }

  private async remove(): Promise<void> {
    if ((await this.find()) === null) return;
    await removeContainer(this.docker.getContainer(proxyName(this.instance)), [404, 409]);
  }
}

/**
 * Returns the proxy's address in a network, and the settings that assign it. The packet rules identify the proxy by its MAC address, which
 * engines before 25 read from the container's options, and later ones from these settings.
 */
function endpointOf(network: Dockerode.NetworkInspectInfo) {
  const address = proxyAddress(subnetOf(network));
  return { address, settings: { MacAddress: macOf(address), IPAMConfig: { IPv4Address: address } } };
}

/** Returns the names that a label lists. An unreadable label lists none, and does not affect the lists of other agents. */
function namesIn(label: string): string[] {
  try {
    const names: unknown = JSON.parse(label);
    return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [];
  } catch {
    return [];
  }
}
