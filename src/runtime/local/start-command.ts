import { RuntimeRefused, ShellCommand } from '../runtime.errors.ts';

/** Throws `ShellCommand` for a shell string, and `RuntimeRefused` for an empty command. */
export function refuseShellString(start: string[]): void {
  if (start.length === 0) throw new RuntimeRefused('the start command is empty');
  const shell = /^(.*\/)?(sh|bash|dash|ash|zsh)$/.test(start[0] ?? '');
  if (shell && start.slice(1).some((word) => /^-\w*c$/.test(word))) throw new ShellCommand(start);
}
