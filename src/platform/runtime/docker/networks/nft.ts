import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import ipaddr from 'ipaddr.js';
import { timeoutSignal } from '../../../async/timeout-signal.ts';
import { RuntimeRefused } from '../../runtime.ts';
import { filesInto } from '../engine/archive.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { call, CALL_TIMEOUT_MS, statusOf } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { runsOurPrograms } from '../engine/local-engine.ts';
import { labels } from '../engine/names.ts';
import { removeContainer } from '../engine/own-containers.ts';
import { machineProgram } from '../image-sources/node-base.ts';
import { findImage, importImage } from '../image-sources/registry.ts';

const machinePaths = ['/usr/sbin/nft', '/sbin/nft', '/usr/bin/nft', '/usr/local/sbin/nft'];
/** The version of the layout, a part of the tag, so that a change of the content makes another image. */
const LAYOUT_VERSION = 2;
const rulesFile = '/rules.nft';
/** The programs of the image: nft, and one that shows a file. */
const nftProgram = '/usr/sbin/nft';
const catProgram = '/usr/bin/cat';
const MESSAGE_CHARACTERS_MAX = 300;

/**
 * Runs this machine's nft in the network of the engine's host, in a container whose only right is to change that network. The image is made
 * from the program and its libraries, once for each machine; none is pulled.
 */
export class Nft {
  private image: Promise<string> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
  ) {}

  /**
   * Runs the script as one transaction and returns what nft prints. Throws `RuntimeRefused` if there is no nft, or it fails, and
   * `RuntimeUnavailable`.
   */
  async run(script: string): Promise<string> {
    const container = await this.make([nftProgram, '-f', rulesFile], 'host', ['NET_ADMIN']);
    try {
      const tar = tarOf([{ name: rulesFile.slice(1), type: 'file', mode: 0o644, content: script }]);
      await filesInto(container, '/', tar);
      return await this.ran(container);
    } finally {
      await removeContainer(container);
    }
  }

  /**
   * Returns the name servers that the engine asks on behalf of agents. It asks them from within the agent's network, so their addresses
   * have to be open. A container on the engine's default network gets their list.
   */
  async nameservers(): Promise<string[]> {
    const onNetwork = async (network: string): Promise<string[]> => {
      const container = await this.make([catProgram, '/etc/resolv.conf'], network, []);
      try {
        return nameserversOf(await this.ran(container));
      } finally {
        await removeContainer(container);
      }
    };
    return onNetwork('bridge').catch((error: unknown) => {
      // An engine may be configured without its default network.
      if (error instanceof RuntimeRefused) return onNetwork('host');
      throw error;
    });
  }

  /** Returns the content of a file as it is in the network of the engine's host. Throws `RuntimeRefused` if there is none. */
  async hostFile(path: string): Promise<string> {
    const container = await this.make([catProgram, path], 'host', []);
    try {
      return await this.ran(container);
    } finally {
      await removeContainer(container);
    }
  }

  private async make(words: string[], network: string, rights: string[]): Promise<Dockerode.Container> {
    this.image ??= this.ensureImage();
    const image = await this.image.catch((error: unknown) => {
      this.image = null;
      throw error;
    });
    const options: Dockerode.ContainerCreateOptions = {
      Image: image,
      Entrypoint: words,
      Labels: { [labels.instance]: this.instance },
      HostConfig: {
        NetworkMode: network,
        UsernsMode: 'host',
        CapDrop: ['ALL'],
        CapAdd: rights,
        SecurityOpt: ['no-new-privileges:true'],
        Memory: 64 * 1024 * 1024,
        PidsLimit: 16,
        LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
      },
    };
    try {
      return await call(null, (abortSignal) => this.docker.createContainer({ ...options, abortSignal }));
    } catch (error) {
      // The image was removed, so it is made again the next time.
      if (statusOf(error) === 404) this.image = null;
      throw error;
    }
  }

  private async ran(container: Dockerode.Container): Promise<string> {
    await call(null, (abortSignal) => container.start({ abortSignal }));
    const { StatusCode } = (await call(null, (abortSignal) => container.wait({ abortSignal }))) as { StatusCode: number };
    const printed: Record<string, Buffer[]> = { stdout: [], stderr: [] };
    // The output is read within the time of the call, since an engine may hang in the middle of it.
    await call(null, async (abortSignal) => {
      const logged = await container.logs({ stdout: true, stderr: true, follow: true, abortSignal });
      for await (const { stream, payload } of frames(logged as unknown as AsyncIterable<Buffer>)) printed[stream]?.push(payload);
    });
    const text = (stream: 'stdout' | 'stderr'): string => Buffer.concat(printed[stream] ?? []).toString();
    if (StatusCode !== 0)
      throw new RuntimeRefused(`nft ended with ${StatusCode}: ${text('stderr').trim().slice(0, MESSAGE_CHARACTERS_MAX)}`);
    return text('stdout');
  }

  private async ensureImage(): Promise<string> {
    if (!(await runsOurPrograms(this.docker))) throw new RuntimeRefused('this machine’s nft does not run on the machine of the engine');
    for (const path of machinePaths) {
      const found = await stat(path).catch(() => null);
      if (found === null) continue;
      const key = createHash('sha256').update(JSON.stringify([LAYOUT_VERSION, path, found.size, found.mtimeMs]));
      const name = `mooring-nft:${key.digest('hex').slice(0, 16)}`;
      if ((await findImage(this.docker, name)) !== null) return name;
      const entries = [...(await machineProgram(path, nftProgram.slice(1))), ...(await machineProgram('/bin/cat', catProgram.slice(1)))];
      const tar = tarOf([...new Map(entries.map((entry) => [entry.name, entry])).values()]);
      await importImage(this.docker, tar, name, [`CMD ["${nftProgram}"]`], timeoutSignal(2 * CALL_TIMEOUT_MS));
      return name;
    }
    throw new RuntimeRefused('this machine has no nft: install the package nftables');
  }
}

/** Returns the addresses in a text of the form of /etc/resolv.conf, without those that are valid only on one link. */
export function nameserversOf(text: string): string[] {
  const named = [...text.matchAll(/^[ \t]*nameserver[ \t]+(\S+)/gm)].map(([, address = '']) => address);
  return [...new Set(named.filter((address) => ipaddr.isValid(address) && !address.includes('%')))];
}
