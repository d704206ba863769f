import { planOf } from '../../src/builds/projects/plan-project.ts';
import { planAt, type ProjectPlan } from '../../src/runtime/project-plan.ts';

/** Returns the plan of a project with these files, and of a start command that was said. */
export function planOfFiles(files: Record<string, string>, port = '8080', start: string[] | null = null): ProjectPlan {
  return planAt(planOf({ names: new Set(Object.keys(files)), texts: new Map(Object.entries(files)) }, start), port);
}

export const json = (value: object): string => JSON.stringify(value);

/** Returns the commands of a line in which they are separated by `&&`. */
export const commandsOf = (line: string): string[][] => line.split(' && ').map((command) => command.split(' '));
