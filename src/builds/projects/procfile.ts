import { PORT_WORD } from '../../runtime/project-plan.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { commandOf, type Command } from './command-words.ts';

export interface Procfile {
  /** The command line of web, as it is written. */
  line: string;
  command: Command;
  /** Sentences for the build log. */
  notes: string[];
}

/** The command that runs once for each deployment, before the agent. */
export interface ProcfileRelease {
  command: string[];
  /** Sentences for the build log. */
  notes: string[];
}

/** Reads a Procfile. Returns null if it has no web. Throws `RuntimeRefused` if its command needs a shell. */
export function procfileOf(text: string): Procfile | null {
  const processes = processesOf(text);
  const line = lineOf(processes, 'web');
  if (line === null) return null;
  const command = commandIn(line, 'web');
  return { line, command, notes: [...assumed(command, 'web'), ...notStarted(processes.map(({ name }) => name))] };
}

/** Returns the release command of a Procfile, or null. Throws `RuntimeRefused` if it needs a shell. */
export function releaseOf(text: string): ProcfileRelease | null {
  const line = lineOf(processesOf(text), 'release');
  if (line === null) return null;
  const command = commandIn(line, 'release');
  const variables = Object.entries(command.env).map(([name, value]) => `${name}=${value}`);
  // The variables in front of it are not the agent's, so they are not in the image.
  return { command: [...(variables.length === 0 ? [] : ['env', ...variables]), ...command.words], notes: assumed(command, 'release') };
}

interface Process {
  name: string;
  line: string;
}

function processesOf(text: string): Process[] {
  const lines = text.split(/[\r\n]+/).map((each) => /^([A-Za-z0-9_-]+):(.*)$/.exec(each));
  return lines.filter((found) => found !== null).map(([, name = '', line = '']) => ({ name, line: line.trim() }));
}

function lineOf(processes: Process[], wanted: string): string | null {
  return processes.find(({ name }) => name === wanted)?.line ?? null;
}

function commandIn(line: string, name: string): Command {
  const command = commandOf(inFolder(line), { PORT: PORT_WORD }, true);
  if (command === null)
    throw new RuntimeRefused(
      `The command of ${name} in the Procfile needs a shell, and agents are started without one: name the program and its arguments, with no other variable than $PORT, or give the project a Dockerfile.`,
    );
  return command;
}

/** Returns the line without a step into the project's folder, in which it runs anyway. */
function inFolder(line: string): string {
  return line.replace(/^cd[ \t]+(?:\.|\.\/|\/app|\/app\/)[ \t]*&&/, '').trim();
}

function assumed({ assumed: names = [] }: Command, process: string): string[] {
  if (names.length === 0) return [];
  return [
    `The command of ${process} in the Procfile is read now, so that ${names.join(', ')} had the default there, whatever the agent's variables say`,
  ];
}

function notStarted(names: string[]): string[] {
  const others = [...new Set(names.filter((name) => name !== 'web' && name !== 'release'))];
  if (others.length === 0) return [];
  return [`Of the Procfile only web is started, and not ${others.join(', ')}: an agent is one program`];
}
