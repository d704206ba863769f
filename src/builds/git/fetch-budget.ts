import { RepositoryRefused } from './repository-refused.ts';

const MIB = 1024 ** 2;
/** The most submodules of a repository, those of its submodules included, and how deep they may be in each other. */
const SUBMODULES_MAX = 50;
const SUBMODULE_DEPTH_MAX = 5;

export interface FetchLimits {
  /** The most bytes that are received. */
  receivedBytesMax: number;
  /** The most bytes of all files together. */
  filesBytesMax: number;
  /** The most files, folders and links. */
  filesMax: number;
  seconds: number;
}

/** Counts what one fetch receives and unpacks, with that of its submodules and of Git LFS. What exceeds a limit is refused. */
export class FetchBudget {
  private received = 0;
  private entries = 0;
  private bytes = 0;
  private submodules = 0;

  constructor(private readonly limits: FetchLimits) {}

  /** The number of bytes that were received so far. */
  get receivedBytes(): number {
    return this.received;
  }

  /** Counts received bytes. Returns the sentence that refuses them, or null. */
  receive(bytes: number): string | null {
    this.received += bytes;
    const { receivedBytesMax: max } = this.limits;
    return this.received > max ? `The repository has more than ${Math.floor(max / MIB)} MiB to fetch.` : null;
  }

  /** Counts a file, folder or link. Throws `RepositoryRefused`. */
  unpack(bytes: number): void {
    this.entries += 1;
    this.bytes += bytes;
    const { filesMax, filesBytesMax } = this.limits;
    if (this.entries > filesMax) throw new RepositoryRefused(`The repository has more than ${filesMax} files.`);
    if (this.bytes > filesBytesMax)
      throw new RepositoryRefused(`The files of the repository have more than ${Math.floor(filesBytesMax / MIB)} MiB.`);
  }

  /** Counts files that take the place of others, if there is room to receive and to unpack them. Returns whether there is. */
  tryReplace(received: number, bytes: number): boolean {
    const { receivedBytesMax, filesBytesMax } = this.limits;
    if (this.received + received > receivedBytesMax || this.bytes + bytes > filesBytesMax) return false;
    this.bytes += bytes;
    return true;
  }

  /** Counts submodules, which are so deep in others. Throws `RepositoryRefused`. */
  enter(count: number, depth: number): void {
    this.submodules += count;
    if (this.submodules > SUBMODULES_MAX) throw new RepositoryRefused(`The repository has more than ${SUBMODULES_MAX} submodules.`);
    if (count > 0 && depth > SUBMODULE_DEPTH_MAX)
      throw new RepositoryRefused(`The repository has submodules that are more than ${SUBMODULE_DEPTH_MAX} deep in each other.`);
  }
}
