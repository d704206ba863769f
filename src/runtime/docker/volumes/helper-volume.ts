/**
 * The volume with our programs that is mounted in every agent's container: the supervisor, and a static busybox if one is available.
 *
 * Owns: that volume and the image from which the engine fills it. Does not own the programs' sources.
 *
 * V1  The volume's name includes the hash of the programs, so another release uses another volume.
 * V2  The engine itself fills the volume: the programs are imported as an image, and the empty volume of a new container gets the content
 *     of that image. No program of ours has to run for it.
 * V3  A volume is used only after it was read back and found complete; an incomplete one is created again once.
 * V4  The supervisor can't be read, and so not traced, by the users that agents run as.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { fileIn } from '../engine/archive.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { call } from '../engine/engine.ts';
import { runsOurPrograms } from '../engine/local-engine.ts';
import { helperMount, helperProgram, helperVolumeName, labels, supervisorProgram } from '../engine/names.ts';
import { findImage, importImage, pull } from '../image-sources/registry.ts';
import { ensureLabelledVolume, findVolume } from './volumes.ts';

/** The image with a static busybox that is used if neither a setting nor the machine has one. */
const publicImage = 'busybox:1.37.0-musl';
const machinePaths = ['/bin/busybox', '/usr/bin/busybox'];
const HELPER_BYTES_MAX = 16 * 1024 * 1024;
const PULL_TIMEOUT_MS = 60_000;
const RESPONSE_TIMEOUT_MS = 5_000;
const RECHECK_MS = 5 * 60_000;

/** The supervisors that are shipped with the service, named by processor as engines name it. */
const supervisors = new URL('../../../../supervisor/bin/', import.meta.url);
const processors = ['amd64', 'arm64'];

interface Programs {
  supervisor: Buffer;
  /** The static busybox; null if none is available. */
  busybox: Buffer | null;
}

/** Provides the volume. See V1 to V4. */
export class HelperVolume {
  private programs: Promise<Programs> | null = null;
  private filling: Promise<string> | null = null;
  /** The volume that was read and found complete since this process started. */
  private filled: string | null = null;
  private lacksSince: number | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly image: string | null,
    private readonly onLack: (reason: string) => void,
  ) {}

  /** Returns the name of the filled volume. Throws `RuntimeRefused` if there is no supervisor for the engine's processor. */
  ensure(): Promise<string> {
    this.filling ??= this.fill().finally(() => (this.filling = null));
    return this.filling;
  }

  /** Returns an image with our programs and nothing else; null if busybox is not among them. */
  async ensureProgramImage(): Promise<string | null> {
    const volume = await this.ensure();
    const programs = await this.programs;
    return programs === null || programs.busybox === null ? null : this.ensureImage(volume, programs);
  }

  private async fill(): Promise<string> {
    if (this.lacksSince !== null && Date.now() - this.lacksSince > RECHECK_MS) {
      this.lacksSince = this.programs = this.filled = null;
    }
    if (this.filled !== null && (await findVolume(this.docker, this.filled)) !== null) return this.filled;
    this.programs ??= this.findPrograms();
    const programs = await this.programs.catch((error: unknown) => {
      this.programs = null;
      throw error;
    });
    if (programs.busybox === null && this.lacksSince === null) {
      this.lacksSince = Date.now();
      this.onLack('no static busybox: install the package busybox-static or name an image in MOORING_HELPER_IMAGE');
    }
    const hash = createHash('sha256').update(this.instance).update(programs.supervisor);
    const volume = helperVolumeName(
      hash
        .update(programs.busybox ?? '')
        .digest('hex')
        .slice(0, 16),
    );
    // V3
    if (!(await this.fillVolume(volume, programs))) {
      await call(null, (abortSignal) => this.docker.getVolume(volume).remove({ abortSignal }));
      if (!(await this.fillVolume(volume, programs))) throw new RuntimeRefused(`The helper volume ${volume} can't be filled.`);
    }
    this.filled = volume;
    return volume;
  }

  /** Fills the volume. Returns whether it then holds the programs, byte for byte. */
  private async fillVolume(volume: string, programs: Programs): Promise<boolean> {
    const image = await this.ensureImage(volume, programs);
    const label = { [labels.instance]: this.instance };
    await ensureLabelledVolume(this.docker, volume, label);
    const mount = { Type: 'volume' as const, Source: volume, Target: helperMount, ReadOnly: false };
    const options = { Image: image, Cmd: [supervisorProgram], Labels: label, HostConfig: { Mounts: [mount] } };
    return this.withContainer(options, async (container) => {
      for (const { path, content } of filesOf(programs)) if (!content.equals(await fileIn(container, path, HELPER_BYTES_MAX))) return false;
      return true;
    });
  }

  private async ensureImage(volume: string, programs: Programs): Promise<string> {
    const image = `mooring-helper:${volume.slice('mooring-helper-'.length)}`;
    if ((await findImage(this.docker, image)) !== null) return image;
    const folder = { name: helperMount.slice(1), type: 'directory' as const, mode: 0o755 };
    const files = filesOf(programs).map(({ path, content, mode }) => ({ name: path.slice(1), type: 'file' as const, mode, content }));
    const label = [`LABEL ${labels.instance}=${this.instance}`];
    await importImage(this.docker, tarOf([folder, ...files]), image, label, timeoutSignal(PULL_TIMEOUT_MS));
    return image;
  }

  private async findPrograms(): Promise<Programs> {
    const { Arch } = await call(null, () => this.docker.version());
    if (!processors.includes(Arch)) throw new RuntimeRefused(`Agents can't run on an engine for ${Arch}: there is no supervisor for it.`);
    return { supervisor: await readFile(new URL(`supervisor-${Arch}`, supervisors)), busybox: await this.findProgram() };
  }

  private async findProgram(): Promise<Buffer | null> {
    if (this.image !== null) {
      const found = await this.fromImage(this.image);
      if (found === null) throw new RuntimeRefused(`The image ${this.image} can't be pulled or has no static busybox at /bin/busybox.`);
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
        await pull(this.docker, image, () => undefined, timeoutSignal(PULL_TIMEOUT_MS), { answerMs: RESPONSE_TIMEOUT_MS });
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

function filesOf({ supervisor, busybox }: Programs): { path: string; content: Buffer; mode: number }[] {
  // V4: A user who can't read a program can't trace it either, from its first instruction on.
  const own = { path: supervisorProgram, content: supervisor, mode: 0o711 };
  return busybox === null ? [own] : [own, { path: helperProgram, content: busybox, mode: 0o755 }];
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
