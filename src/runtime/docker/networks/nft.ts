import type { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import ipaddr from 'ipaddr.js';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { filesInto } from '../engine/archive.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { call, statusOf } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { labels } from '../engine/names.ts';
import { removeContainer } from '../engine/own-containers.ts';
import { catProgram, nftProgram, nodeProgram, type EgressImages } from './egress-images.ts';
import { DISCARD_PORT, type Link } from './links.ts';
import { broadcastAddress } from './listed-addresses.ts';

const rulesFile = '/rules.nft';
/** The program that sends a datagram from each first address to the second one. A bridge without running containers has no carrier. */
const broadcast = `const [, ...ways] = process.argv;
for (const [from, to] of ways.map((way) => way.split(' '))) {
  const socket = require('node:dgram').createSocket('udp4').on('error', () => socket.close());
  socket.bind(0, from, () => {
    socket.setBroadcast(true);
    socket.send('', ${DISCARD_PORT}, to, () => socket.close());
  });
}`;
const MEGABYTE = 1024 * 1024;
const MESSAGE_CHARACTERS_MAX = 300;

/** Runs nft in the network namespace of the engine's host, in a container whose only capability is to change that network. */
export class Nft {
  /** The image of each kind. It is provided again if the engine has lost it. */
  private readonly found = new Map<'forRules' | 'forNode', Promise<string>>();

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly images: Pick<EgressImages, 'forRules' | 'forNode'>,
  ) {}

  /**
   * Runs the script as one transaction and returns the output of nft. Throws `RuntimeRefused` if nft is missing or fails, and
   * `RuntimeUnavailable`.
   */
  async run(script: string): Promise<string> {
    const tar = tarOf([{ name: rulesFile.slice(1), type: 'file', mode: 0o644, content: script }]);
    return this.printed('forRules', [nftProgram, '-f', rulesFile], 'host', { rights: ['NET_ADMIN'], files: tar });
  }

  /**
   * Returns the name servers that the engine queries on behalf of agents. It queries them from within the agent's network, so their
   * addresses have to be open. A container on the engine's default network gets the list of them.
   */
  async nameservers(): Promise<string[]> {
    const onNetwork = (network: string) => this.printed('forRules', [catProgram, '/etc/resolv.conf'], network);
    const text = await onNetwork('bridge').catch((error: unknown) => {
      // An engine may be configured without its default network.
      if (error instanceof RuntimeRefused) return onNetwork('host');
      throw error;
    });
    return nameserversOf(text);
  }

  /** Returns the content of a file in the network namespace of the engine's host. Throws `RuntimeRefused` if it does not exist. */
  hostFile(path: string): Promise<string> {
    return this.printed('forRules', [catProgram, path], 'host');
  }

  /** Sends one datagram to all ports of the links from the engine's host, as `reachPorts` does from this machine. */
  async reachPorts(links: readonly Link[]): Promise<void> {
    if (links.length === 0) return;
    const ways = links.map(({ gateway, subnet }) => `${gateway} ${broadcastAddress(subnet)}`);
    await this.printed('forNode', [nodeProgram, '--max-old-space-size=16', '-e', broadcast, ...ways], 'host');
  }

  /** Runs one of our programs to its end in a container on that network, and returns its output. */
  private async printed(
    kind: 'forRules' | 'forNode',
    words: string[],
    network: string,
    { rights = [], files = null }: { rights?: string[]; files?: Readable | null } = {},
  ): Promise<string> {
    const container = await this.make(kind, words, network, rights);
    try {
      if (files !== null) await filesInto(container, '/', files);
      return await this.ran(container);
    } finally {
      await removeContainer(container);
    }
  }

  private async make(kind: 'forRules' | 'forNode', words: string[], network: string, rights: string[]): Promise<Dockerode.Container> {
    const finding = this.found.get(kind) ?? this.images[kind]();
    this.found.set(kind, finding);
    const image = await finding.catch((error: unknown) => {
      this.found.delete(kind);
      throw error;
    });
    const options: Dockerode.ContainerCreateOptions = {
      Image: image,
      Entrypoint: words,
      User: '0:0',
      Labels: { [labels.instance]: this.instance },
      HostConfig: {
        NetworkMode: network,
        UsernsMode: 'host',
        CapDrop: ['ALL'],
        CapAdd: rights,
        SecurityOpt: ['no-new-privileges:true'],
        Memory: (kind === 'forRules' ? 64 : 128) * MEGABYTE,
        PidsLimit: 64,
        LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
      },
    };
    try {
      return await call(null, (abortSignal) => this.docker.createContainer({ ...options, abortSignal }));
    } catch (error) {
      // The image was removed, so it is provided again the next time.
      if (statusOf(error) === 404) this.found.delete(kind);
      throw error;
    }
  }

  private async ran(container: Dockerode.Container): Promise<string> {
    await call(null, (abortSignal) => container.start({ abortSignal }));
    const { StatusCode } = (await call(null, (abortSignal) => container.wait({ abortSignal }))) as { StatusCode: number };
    const printed: Record<string, Buffer[]> = { stdout: [], stderr: [] };
    // The output is read within the timeout of the call, since an engine may hang in the middle of it.
    await call(null, async (abortSignal) => {
      const logged = await container.logs({ stdout: true, stderr: true, follow: true, abortSignal });
      for await (const { stream, payload } of frames(logged as unknown as AsyncIterable<Buffer>)) printed[stream]?.push(payload);
    });
    const text = (stream: 'stdout' | 'stderr'): string => Buffer.concat(printed[stream] ?? []).toString();
    if (StatusCode !== 0)
      throw new RuntimeRefused(`nft ended with ${StatusCode}: ${text('stderr').trim().slice(0, MESSAGE_CHARACTERS_MAX)}`);
    return text('stdout');
  }
}

/** Returns the addresses in a text in the format of /etc/resolv.conf, without link-local ones. */
export function nameserversOf(text: string): string[] {
  const named = [...text.matchAll(/^[ \t]*nameserver[ \t]+(\S+)/gm)].map(([, address = '']) => address);
  return [...new Set(named.filter((address) => ipaddr.isValid(address) && !address.includes('%')))];
}
