/** One step of a pull, a build or an import, as reported by the engine. */
export interface Progress {
  stream?: string;
  status?: string;
  id?: string;
  progressDetail?: { current?: number; total?: number };
  error?: string;
  errorDetail?: { message?: string };
  aux?: { ID?: string };
}

/** The shortest time between two log lines about the progress of a pull, in ms. */
const LINE_WAIT_MS = 1_000;
/** The wait before the next line grows with the age of the pull, so the number of lines grows with the logarithm of the age. */
const LINE_AGE_PART = 1 / 10;
/** The largest number of layers whose progress is tracked. Engines refuse images with more than 127. */
const LAYERS_MAX = 256;

interface Layer {
  /** The last step of the layer, as it was reported. */
  last: string;
  isPresent: boolean;
  isComplete: boolean;
  received: number;
  /** The size in bytes; null until its download begins. */
  total: number | null;
}

/** Logs the progress of one pull for people: at most one line a second, and about 100 lines in an hour. */
export class PullProgress {
  private readonly layers = new Map<string, Layer>();
  private readonly begunAt: number;
  private loggedAt: number;
  private lastLogged = '';
  private readonly log: (line: string) => void;
  private readonly now: () => number;

  /** `now` returns a time in ms that never goes back. */
  constructor(log: (line: string) => void, now: () => number = () => performance.now()) {
    this.log = log;
    this.now = now;
    this.begunAt = this.now();
    this.loggedAt = this.begunAt;
  }

  /** Records a step that the engine reported. Returns whether it is progress, rather than a repetition of an earlier report. */
  apply({ status, id, progressDetail = {} }: Progress): boolean {
    if (status === undefined) return false;
    // A step that concerns the whole image has no id, or the tag as its id.
    if (id === undefined || status.startsWith('Pulling from ')) {
      this.log(status);
      return true;
    }
    const layer = this.layers.get(id) ?? { last: '', isPresent: false, isComplete: false, received: 0, total: null };
    if (!this.layers.has(id) && this.layers.size >= LAYERS_MAX) return false;
    const last = `${status} ${progressDetail.current ?? ''}`;
    this.layers.set(id, { ...advanced(layer, status, progressDetail), last });
    const now = this.now();
    if (now - this.loggedAt >= Math.max(LINE_WAIT_MS, (now - this.begunAt) * LINE_AGE_PART)) {
      this.loggedAt = now;
      this.logProgress();
    }
    return last !== layer.last;
  }

  /** The size of the layers that the engine lacks, as transferred; a lower bound until the download of each has begun. */
  get wantedBytes(): number {
    const wanted = [...this.layers.values()].filter(({ isPresent }) => !isPresent);
    return sum(wanted.map(({ total, received }) => Math.max(total ?? 0, received)));
  }

  /** Logs the pulled size when the pull has succeeded. */
  end(): void {
    if (this.layers.size > 0) this.logProgress();
  }

  private logProgress(): void {
    const layers = [...this.layers.values()];
    const wanted = layers.filter(({ isPresent }) => !isPresent);
    const present = layers.length - wanted.length;
    const line = [
      `${wanted.filter(({ isComplete }) => isComplete).length} of ${wanted.length} layers pulled`,
      `${megabytes(sum(wanted.map(({ received }) => received)))} of ${sizeOf(wanted)} downloaded`,
      ...(present === 0 ? [] : [`${present} more layers were there already`]),
    ].join(', ');
    if (line !== this.lastLogged) this.log(line);
    this.lastLogged = line;
  }
}

function advanced(layer: Layer, status: string, { current, total }: { current?: number; total?: number }): Layer {
  if (status === 'Already exists') return { ...layer, isPresent: true, isComplete: true };
  if (status === 'Pull complete') return { ...layer, isComplete: true, received: layer.total ?? layer.received };
  if (status === 'Download complete') return { ...layer, received: layer.total ?? layer.received };
  // While a layer is unpacked, the engine reports the unpacked bytes.
  if (status !== 'Downloading') return layer;
  return { ...layer, received: current ?? layer.received, total: total !== undefined && total > 0 ? total : layer.total };
}

/** Returns the size of the layers. It is a lower bound until the download of each has begun. */
function sizeOf(layers: readonly Layer[]): string {
  const size = megabytes(sum(layers.map(({ total, received }) => total ?? received)));
  return layers.some(({ total, isComplete }) => total === null && !isComplete) ? `at least ${size}` : size;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
