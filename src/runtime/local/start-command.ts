import type { ContainerSpec } from '../container.ts';
import { RuntimeRefused, ShellCommand } from '../runtime.errors.ts';
import type { ImageRecord } from './image-record.ts';

/** Throws `ShellCommand` for a shell string, and `RuntimeRefused` for an empty command. */
export function refuseShellString(start: string[]): void {
  if (start.length === 0) throw new RuntimeRefused('the start command is empty');
  const shell = /^(.*\/)?(sh|bash|dash|ash|zsh)$/.test(start[0] ?? '');
  if (shell && start.slice(1).some((word) => /^-\w*c$/.test(word))) throw new ShellCommand(start);
}

/** Returns the start command of a container whose agent gets this port of the host, in the words that hold the container's port as well. */
export function startCommandAt(port: number, spec: Pick<ContainerSpec, 'command' | 'port'>, image: ImageRecord): string[] {
  const { start, portWords = [] } = image;
  const atPort = (word: string) => word.replaceAll(/\d+/g, (digits) => (digits === String(spec.port) ? String(port) : digits));
  return (spec.command ?? start).map((word, at) => (portWords.includes(at) ? atPort(word) : word));
}
