import { RepositoryRefused } from '../git/repository-refused.ts';
import { JsonFault, type LocatedMember, locatedMembers } from './located-json.ts';
import { beyondBounds, type RunBounds, runSettingNames, runSettingProblem } from './run-setting-rules.ts';
import type { RunSettingName, RunSettings } from './run-settings.ts';

export const MOORING_JSON = 'mooring.json';
/** The member by which editors find the schema. */
export const SCHEMA_MEMBER = '$schema';
/** The most faults that one message names. */
const NAMED_MAX = 3;

/**
 * Parses the file mooring.json of a repository. Throws `RepositoryRefused` with the lines of what is wrong: no JSON object, a member that is not
 * known or stands there twice, a value that is not allowed or exceeds the operator's bounds.
 */
export function parseMooringJson(text: string, bounds: RunBounds): RunSettings {
  const members = membersOf(text.replace(/^\ufeff/, ''));
  const faults = members.flatMap((member, at) => {
    const problem = memberProblem(member, members.slice(0, at), bounds);
    return problem === null ? [] : [inLine(member.line, `${shown(member.name)} ${problem}`)];
  });
  if (faults.length > 0) throw new RepositoryRefused(faults.slice(0, NAMED_MAX).join(' '));
  return Object.fromEntries(members.filter(({ name }) => name !== SCHEMA_MEMBER).map(({ name, value }) => [name, value]));
}

function membersOf(text: string): LocatedMember[] {
  try {
    return locatedMembers(text);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    throw new RepositoryRefused(inLine(error.line, `this is not JSON: ${error.message}`));
  }
}

function memberProblem({ name, value }: LocatedMember, before: LocatedMember[], bounds: RunBounds): string | null {
  if (before.some((other) => other.name === name)) return 'is there twice';
  if (name === SCHEMA_MEMBER) return typeof value === 'string' ? null : 'must be the address of the schema';
  if (!runSettingNames.includes(name as RunSettingName)) return `is not known; the members are ${runSettingNames.join(', ')}`;
  if (value === null) return 'must not be null; leave it out instead';
  return runSettingProblem(name as RunSettingName, value) ?? beyondBounds({ [name]: value }, bounds)?.problem ?? null;
}

function inLine(line: number, sentence: string): string {
  return `${MOORING_JSON}, line ${line}: ${sentence}.`;
}

/** Returns a member's name as a message shows it. */
function shown(name: string): string {
  return runSettingNames.includes(name as RunSettingName) ? name : JSON.stringify(name.slice(0, 50));
}
