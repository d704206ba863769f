import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../async/timeout-signal.ts';
import { RuntimeRefused } from '../../runtime.ts';
import { fileIn } from '../engine/archive.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { call } from '../engine/engine.ts';
import { runsOurPrograms } from '../engine/local-engine.ts';
import { helperMount, helperProgram, helperVolumeName, labels } from '../engine/names.ts';
import { findImage, importImage, pull } from '../image-sources/registry.ts';
import { ensureLabelledVolume, findVolume } from './volumes.ts';

/** The image with a static busybox that is used if neither a setting nor the machine has one. */
const publicImage = 'busybox:1.37.0-musl';
const machinePaths = ['/bin/busybox', '/usr/bin/busybox'];
const HELPER_BYTES_MAX = 16 * 1024 * 1024;
const PULL_TIMEOUT_MS = 60_000;
const ANSWER_TIMEOUT_MS = 5_000;
const CHECK_AGAIN_MS = 5 * 60_000;

/**
 * Provides the volume with the helper program that is mounted in every agent's container. The engine itself fills it: the program is
 * imported as an image, and the empty volume of a new container gets the image's content at that path. The volume's name includes the
 * program's hash.
 */
export class HelperVolume {
  private program: Promise<Buffer | null> | null = null;
  private filling: Promise<string | null> | null = null;
  /** The volume that was read and found complete since this process started. */
  private filled: string | null = null;
  private lacksSince = 0;

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly image: string | null,
    private readonly onLack: (reason: string) => void,
  ) {}

  /** Returns the name of the filled volume; null if no helper program is available. */
  ensure(): Promise<string | null> {
    this.filling ??= this.fill().finally(() => (this.filling = null));
    return this.filling;
  }

  /** Returns an image with the helper program and nothing else; null if no helper program is available. */
  async ensureProgramImage(): Promise<string | null> {
    const volume = await this.ensure();
    const program = await this.program;
    return volume === null || program === null ? null : this.ensureImage(volume, program);
  }

  private async fill(): Promise<string | null> {
    if (this.filled !== null && (await findVolume(this.docker, this.filled)) !== null) return this.filled;
    if (Date.now() - this.lacksSince < CHECK_AGAIN_MS) return null;
    this.program ??= this.findProgram();
    const program = await this.program.catch((error: unknown) => {
      this.program = null;
      throw error;
    });
    if (program === null) {
      this.program = null;
      this.lacksSince = Date.now();
      this.onLack('no static busybox: install the package busybox-static or name an image in MOORING_HELPER_IMAGE');
      return null;
    }
    const hash = createHash('sha256').update(this.instance).update(program).digest('hex').slice(0, 16);
    const volume = helperVolumeName(hash);
    // A volume that is incomplete after an engine's crash is created again once.
    if (!(await this.fillVolume(volume, program))) {
      await call(null, (abortSignal) => this.docker.getVolume(volume).remove({ abortSignal }));
      if (!(await this.fillVolume(volume, program))) throw new RuntimeRefused(`The helper volume ${volume} can't be filled.`);
    }
    this.filled = volume;
    return volume;
  }

  /** Fills the volume. Returns whether it then holds the program, byte for byte. */
  private async fillVolume(volume: string, program: Buffer): Promise<boolean> {
    const image = await this.ensureImage(volume, program);
    const label = { [labels.instance]: this.instance };
    await ensureLabelledVolume(this.docker, volume, label);
    const mount = { Type: 'volume' as const, Source: volume, Target: helperMount, ReadOnly: false };
    return this.withContainer({ Image: image, Cmd: [helperProgram], Labels: label, HostConfig: { Mounts: [mount] } }, async (container) =>
      program.equals(await fileIn(container, helperProgram, HELPER_BYTES_MAX)),
    );
  }

  private async ensureImage(volume: string, program: Buffer): Promise<string> {
    const image = `mooring-helper:${volume.slice('mooring-helper-'.length)}`;
    if ((await findImage(this.docker, image)) !== null) return image;
    const folder = { name: helperMount.slice(1), type: 'directory' as const, mode: 0o755 };
    const tar = tarOf([folder, { name: helperProgram.slice(1), type: 'file', mode: 0o755, content: program }]);
    await importImage(this.docker, tar, image, [`LABEL ${labels.instance}=${this.instance}`], timeoutSignal(PULL_TIMEOUT_MS));
    return image;
  }

  private async findProgram(): Promise<Buffer | null> {
    if (this.image !== null) {
      const found = await this.fromImage(this.image);
      if (found === null) throw new RuntimeRefused(`The image ${this.image} can't be had or has no static busybox at /bin/busybox.`);
      return found;
    }
    if (await runsOurPrograms(this.docker)) {
      for (const path of machinePaths) {
        const program = await readFile(path).catch(() => null);
        if (program !== null && isStatic(program)) return program;
      }
    }
    return this.fromImage(publicImage);
  }

  private async fromImage(image: string): Promise<Buffer | null> {
    try {
      if ((await findImage(this.docker, image)) === null)
        await pull(this.docker, image, () => undefined, timeoutSignal(PULL_TIMEOUT_MS), { answerMs: ANSWER_TIMEOUT_MS });
      const options = { Image: image, Cmd: ['/bin/busybox'], Labels: { [labels.instance]: this.instance } };
      const program = await this.withContainer(options, (container) => fileIn(container, '/bin/busybox', HELPER_BYTES_MAX));
      return isStatic(program) ? program : null;
    } catch (error) {
      if (error instanceof RuntimeRefused || (error as Error).name === 'TimeoutError') return null;
      throw error;
    }
  }

  /** Creates a container only for its files, never starts it, and removes it after the work. */
  private async withContainer<T>(
    options: Dockerode.ContainerCreateOptions,
    work: (container: Dockerode.Container) => Promise<T>,
  ): Promise<T> {
    const container = await call(null, (abortSignal) => this.docker.createContainer({ ...options, abortSignal }));
    try {
      return await work(container);
    } finally {
      await call(null, (abortSignal) => container.remove({ force: true, v: true, abortSignal }));
    }
  }
}

/** Returns whether it is an ELF program without an interpreter, which runs in an image without any library. */
export function isStatic(program: Buffer): boolean {
  const elf64LittleEndian = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  if (program.length < 64 || !program.subarray(0, 6).equals(elf64LittleEndian)) return false;
  const table = Number(program.readBigUInt64LE(32));
  const entryBytes = program.readUInt16LE(54);
  const interpreter = 3;
  for (let at = 0; at < program.readUInt16LE(56); at += 1) {
    const entry = table + at * entryBytes;
    if (entry + 4 > program.length || program.readUInt32LE(entry) === interpreter) return false;
  }
  return true;
}
