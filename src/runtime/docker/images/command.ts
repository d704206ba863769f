import { RuntimeRefused, ShellCommand } from '../../runtime.errors.ts';

const shell = /^(.*\/)?(sh|bash|ash|dash|ksh|zsh)$/;

/**
 * Returns the command that a container of an image runs: `start`, or the image's own entry point and CMD. Throws `ShellCommand`,
 * `RuntimeRefused`.
 */
export function startCommand(config: { Entrypoint?: string | string[] | null; Cmd?: string[] | null }, start: string[] | null): string[] {
  const entry = typeof config.Entrypoint === 'string' ? [config.Entrypoint] : (config.Entrypoint ?? []);
  const command = start ?? [...entry, ...(config.Cmd ?? [])];
  if (command.length === 0 || command[0] === '')
    throw new RuntimeRefused('The image names no start command: give it a CMD or an ENTRYPOINT.');
  if (isShellString(command)) throw new ShellCommand(command);
  return command;
}

/** Returns whether the command contains a shell with `-c`: at its beginning, or after an entry point that executes its arguments. */
function isShellString(command: string[]): boolean {
  return command.some((word, at) => shell.test(word) && takesString(command.slice(at + 1)));
}

function takesString(options: string[]): boolean {
  for (let at = 0; at < options.length; at += 1) {
    const option = options[at] ?? '';
    if (/^-[a-z]*c$/.test(option)) return true;
    if (/^[-+]o$/.test(option)) at += 1;
    else if (!/^[-+]/.test(option)) return false;
  }
  return false;
}
