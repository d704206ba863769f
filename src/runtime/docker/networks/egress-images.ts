import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { pause } from '../../../kernel/async/pause.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { CALL_TIMEOUT_MS } from '../engine/engine.ts';
import { runsOurPrograms } from '../engine/local-engine.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { machineProgram } from '../image-sources/machine-programs.ts';
import { ensureNodeBase } from '../image-sources/node-base.ts';
import { findImage, importImage } from '../image-sources/registry.ts';
import { ServiceImage } from '../image-sources/service-image.ts';

const folder = new URL('../../../../deploy/egress/', import.meta.url);
const machinePaths = ['/usr/sbin/nft', '/sbin/nft', '/usr/bin/nft', '/usr/local/sbin/nft'];
/** The version of the layout. It is part of the tag, so that a change of the content results in a new image. */
const LAYOUT_VERSION = 2;
const MAKING_MS = 15 * 60_000;
/**
 * The longest time for which the rules wait for an image, in ms. An image that the engine has is found within this time; a missing one is
 * built in the background.
 */
const WAIT_MS = 5_000;
/** The time for which an image that could not be provided is not tried again, in ms. */
const RETRY_MS = 5 * 60_000;

/** The paths of the programs in each of the images: nft, a program that prints a file, and Node. */
export const nftProgram = '/usr/sbin/nft';
export const catProgram = '/usr/bin/cat';
export const nodeProgram = '/usr/local/bin/node';

/**
 * Provides the images of the programs that enforce the egress rules. They are built from this machine's own programs if those run on the
 * engine, so that nothing is pulled. Otherwise, or if the operator names an image, one image contains them all.
 */
export class EgressImages {
  private readonly made: ServiceImage;
  private making: Promise<string> | null = null;
  private lack: { error: RuntimeRefused; at: number } | null = null;

  /** Calls `onMade` when an image becomes available after a caller gave up waiting for it. */
  constructor(
    private readonly docker: Dockerode,
    private readonly given: string | null,
    private readonly onMade: () => void = () => undefined,
  ) {
    this.made = new ServiceImage(docker, {
      given,
      folder,
      repo: 'mooring-egress',
      owner: 'the egress rules',
      setting: 'MOORING_EGRESS_IMAGE',
      unmade: 'the image of the egress rules can’t be made on this engine',
    });
  }

  /** Resolves when no image is being pulled or built any more, which takes minutes. Returns whether one was. */
  async ended(): Promise<boolean> {
    const { making } = this;
    await making?.catch(() => undefined);
    return making !== null;
  }

  /** Returns an image with `nftProgram` and `catProgram`. Throws `RuntimeRefused` if there is none, and `RuntimeUnavailable`. */
  async forRules(): Promise<string> {
    return (await this.usesMachine()) ? this.machineNft() : this.ensureMade();
  }

  /** Returns an image with `nodeProgram`. Throws as `forRules` does. */
  async forNode(): Promise<string> {
    return (await this.usesMachine()) ? ensureNodeBase(this.docker, timeoutSignal(2 * CALL_TIMEOUT_MS)) : this.ensureMade();
  }

  private async usesMachine(): Promise<boolean> {
    return this.given === null && (await runsOurPrograms(this.docker));
  }

  private async ensureMade(): Promise<string> {
    if (this.lack !== null && Date.now() - this.lack.at < RETRY_MS) throw this.lack.error;
    this.making ??= this.make().finally(() => (this.making = null));
    const { making } = this;
    const waiting = new AbortController();
    const made = await Promise.race([making, pause(WAIT_MS, waiting.signal, { ref: false })]).finally(() => waiting.abort());
    if (made !== undefined) return made;
    making.then(this.onMade, () => undefined);
    throw new RuntimeRefused('the image of the egress rules is being made, which is done once');
  }

  private async make(): Promise<string> {
    try {
      const image = await this.made.ensure(() => undefined, timeoutSignal(MAKING_MS));
      this.lack = null;
      return image;
    } catch (error) {
      if (error instanceof RuntimeRefused) this.lack = { error, at: Date.now() };
      throw error;
    }
  }

  private async machineNft(): Promise<string> {
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
    throw new RuntimeRefused('this machine has no nft: install the package nftables, or name an image in MOORING_EGRESS_IMAGE');
  }
}
