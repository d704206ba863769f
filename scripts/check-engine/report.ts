import type { Exception } from './outcome.ts';

export interface Result {
  name: string;
  state: 'holds' | 'failed' | Exception['state'];
  /** The reason; null if the step succeeded, or was skipped because of another one. */
  why: string | null;
  ms: number;
}

/** The most characters of a reason in the report. */
const WHY_CHARACTERS_MAX = 600;
const LABEL_WIDTH = 14;

/** The members of the engine's `GET /version` that the report shows. */
export interface EngineVersionAnswer {
  Version?: string;
  ApiVersion?: string;
  Os?: string;
  Arch?: string;
  Components?: { Name: string; Version?: string }[];
}

/** The members of the engine's `GET /info` that the report shows. */
export interface EngineInfoAnswer {
  Driver?: string;
  DriverStatus?: [string, string][] | null;
  CgroupVersion?: string;
  CgroupDriver?: string;
  OperatingSystem?: string;
  KernelVersion?: string;
  SecurityOptions?: string[] | null;
  MemoryLimit?: boolean;
  CpuCfsQuota?: boolean;
  PidsLimit?: boolean;
}

/** Returns the known facts about an engine before the first step, with a label and a text for each. */
export function engineFacts(version: EngineVersionAnswer, info: EngineInfoAnswer, address: string): [label: string, text: string][] {
  const name = version.Components?.[0]?.Name ?? 'Engine';
  const product = /podman/i.test(name) ? name : 'Docker Engine';
  const options = info.SecurityOptions ?? [];
  const limits = Object.entries({ memory: info.MemoryLimit, processor: info.CpuCfsQuota, processes: info.PidsLimit });
  const missing = limits.filter(([, has]) => has === false).map(([limit]) => limit);
  return [
    ['engine', `${product} ${version.Version ?? '?'}, API ${version.ApiVersion ?? '?'}, ${version.Os ?? '?'}/${version.Arch ?? '?'}`],
    ['reached by', address],
    ['system', `${info.OperatingSystem ?? '?'}, kernel ${info.KernelVersion ?? '?'}`],
    ['image store', storeOf(info)],
    ['cgroups', cgroupsOf(info)],
    ['limits', missing.length === 0 ? 'memory, processor, processes' : `not enforced: ${missing.join(', ')}`],
    ['rootless', options.some((option) => option.includes('name=rootless')) ? 'yes' : 'no'],
  ];
}

function storeOf({ Driver, DriverStatus }: EngineInfoAnswer): string {
  const isContainerd = (DriverStatus ?? []).some(([, value]) => value.startsWith('io.containerd.snapshotter'));
  return isContainerd ? `containerd (${Driver ?? '?'})` : `graph driver (${Driver ?? '?'})`;
}

function cgroupsOf({ CgroupVersion, CgroupDriver }: EngineInfoAnswer): string {
  return CgroupDriver === 'none' ? 'none' : `version ${CgroupVersion ?? '?'}, driver ${CgroupDriver ?? '?'}`;
}

export const factLine = (label: string, text: string): string => `${label.padEnd(LABEL_WIDTH)}${text}`;

/** Returns the lines of one step in the report. */
export function resultLines({ name, state, why, ms }: Result): string[] {
  const shown = (state === 'failed' ? 'FAILED' : state).padEnd(10);
  const time = `${(ms / 1_000).toFixed(1)} s`.padStart(8);
  const reason = why === null ? [] : [`${' '.repeat(22)}${oneLine(why)}`];
  return [`  ${shown}${time}  ${name}`, ...reason];
}

/** Returns the end of the report: the counts, and the differences and failures once more. */
export function summaryLines(results: readonly Result[], ms: number): string[] {
  const of = (state: Result['state']) => results.filter((result) => result.state === state);
  const named = (state: Result['state']) => of(state).flatMap(({ name, why }) => (why === null ? [] : [`  ${name}: ${oneLine(why)}`]));
  const block = (title: string, lines: string[]) => (lines.length === 0 ? [] : ['', title, ...lines]);
  return [
    ...block('differs', named('differs')),
    ...block('not tried', named('not tried')),
    ...block('FAILED', named('failed')),
    '',
    `${of('holds').length} hold, ${of('differs').length} differ, ${of('failed').length} failed, ${of('not tried').length} not tried, in ${(ms / 1_000).toFixed(0)} s`,
  ];
}

/** Returns the exit status. Differences are documented, so only failures count, and a check that tried nothing. */
export function exitStatus(results: readonly Result[]): 0 | 1 {
  const tried = results.some(({ state }) => state === 'holds');
  return tried && results.every(({ state }) => state !== 'failed') ? 0 : 1;
}

/** Returns whether a step can't be tried, since a step that it needs has failed. */
export function isBlocked(step: { needs?: string }, results: readonly Result[]): boolean {
  return step.needs !== undefined && results.find(({ name }) => name === step.needs)?.state !== 'holds';
}

/** Returns the parts with these names, in the order of the check; all of them if no name is given. Throws if a name is unknown. */
export function chosenParts<T extends { name: string }>(parts: readonly T[], names: readonly string[]): T[] {
  const unknown = names.find((name) => !parts.some((part) => part.name === name));
  if (unknown !== undefined) throw new Error(`There is no part ${unknown}: choose of ${parts.map(({ name }) => name).join(', ')}.`);
  return parts.filter(({ name }) => names.length === 0 || names.includes(name));
}

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > WHY_CHARACTERS_MAX ? `${line.slice(0, WHY_CHARACTERS_MAX)}…` : line;
}
