/** The first version in which no call on a container's files can be led to the host (CVE-2026-41568, CVE-2026-42306). */
export const LOWEST_SAFE_VERSION = '29.5.1';

export type Safety = 'safe' | 'below' | 'unknown';

/** The members of the engine's response to `GET /version` that are read. */
export interface VersionAnswer {
  Version?: string;
  Components?: { Name?: string }[] | null;
}

/** Compares the version that an engine reports. The version of an engine other than Docker's has no meaning here. */
export function safetyOf({ Version = '', Components }: VersionAnswer, lowest = LOWEST_SAFE_VERSION): Safety {
  if (isPodman(Components)) return 'unknown';
  const found = partsOf(Version);
  const wanted = partsOf(lowest);
  if (found === null || wanted === null) return 'unknown';
  const difference = found.numbers.map((number, at) => number - (wanted.numbers[at] ?? 0)).find((each) => each !== 0) ?? 0;
  if (difference !== 0) return difference > 0 ? 'safe' : 'below';
  return found.isPreview ? 'below' : 'safe';
}

export const isPodman = (components: VersionAnswer['Components']): boolean =>
  components?.some(({ Name }) => /podman/i.test(Name ?? '')) ?? false;

/** Parses versions such as `20.10.24+dfsg1`, `29.5.1-rc.1`, `18.09.1-ce`. Suffixes of distributions are ignored. */
function partsOf(version: string): { numbers: number[]; isPreview: boolean } | null {
  const [, major, minor, patch, suffix = ''] = /^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})((?:[-+~].*)?)$/s.exec(version) ?? [];
  if (major === undefined) return null;
  return { numbers: [major, minor, patch].map(Number), isPreview: /^[-~](alpha|beta|dev|pre|rc|tp)/i.test(suffix) };
}
