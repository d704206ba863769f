import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { commandOf, type Command } from './command-words.ts';

export interface Procfile {
  /** The command line of web, as it is written. */
  line: string;
  command: Command;
  /** Sentences for the build log. */
  notes: string[];
}

/** Reads a Procfile. Returns null if it has no web. Throws `RuntimeRefused` if its command needs a shell. */
export function procfileOf(text: string, port: number): Procfile | null {
  const lines = text.split(/[\r\n]+/).map((each) => /^([A-Za-z0-9_-]+):(.*)$/.exec(each));
  const processes = lines.filter((found) => found !== null).map(([, name = '', line = '']) => ({ name, line: line.trim() }));
  const line = processes.find(({ name }) => name === 'web')?.line;
  if (line === undefined) return null;
  const command = commandOf(inFolder(line), { PORT: String(port) }, true);
  if (command === null)
    throw new RuntimeRefused(
      'The command of web in the Procfile needs a shell, and agents are started without one: name the program and its arguments, with no other variable than $PORT, or give the project a Dockerfile.',
    );
  return { line, command, notes: [...assumed(command), ...notStarted(processes.map(({ name }) => name))] };
}

/** Returns the line without a step into the project's folder, in which it runs anyway. */
function inFolder(line: string): string {
  return line.replace(/^cd[ \t]+(?:\.|\.\/|\/app|\/app\/)[ \t]*&&/, '').trim();
}

function assumed({ assumed: names = [] }: Command): string[] {
  if (names.length === 0) return [];
  return [
    `The command of web in the Procfile is read now, so that ${names.join(', ')} had the default there, whatever the agent's variables say`,
  ];
}

function notStarted(names: string[]): string[] {
  const others = [...new Set(names.filter((name) => name !== 'web'))];
  if (others.length === 0) return [];
  return [`Of the Procfile only web is started, and not ${others.join(', ')}: an agent is one program`];
}
