import { stripVTControlCharacters } from 'node:util';

/** Lines that do not say why a command failed. */
const noise = [
  /^$|A complete log of this run|Log files were not written|This is related to npm/i,
  /^npm (notice|warn)/i,
  /^npm (error|ERR!)( \S+)?$/i,
  /^npm (error|ERR!) (code|path|command|errno|syscall|signal|workspace|location|in workspace|Lifecycle script)\b/i,
  /^\[notice\]|^WARNING: /i,
  /^ERROR: (Ignored the following|Could not find a version that satisfies)/,
  /subprocess-exited-with-error|^note: This error originates from a subprocess|^hint: See above/i,
  /\bELIFECYCLE\b|^error Command failed with exit code|^info Visit https:|^➤ YN0000:|^Node\.js v\d/i,
];
/** The beginnings of errors, as compilers, package managers, shells and programs print them. */
const anError = [
  /\b\w*(error|fatal)(\[\w+\])?:/i,
  /\berror TS\d|\[error\]|\bERR_[A-Z_]|^E: /i,
  /^npm (error|ERR!) |^error |^failed to compile|^error during build:/i,
  /: (command )?not found$|: No such file or directory$|: Permission denied$/i,
];
const aWarning = /^(npm |pnpm )?(warn|deprecat|info|debug)/i;

/** Finds in the output of a command why it failed: its first error, or else its last line that says something. */
export class FailureReason {
  private first = '';
  private last = '';
  private goesOn = false;

  /** Takes a line, which stays whole, because half a secret would not be recognized in it later. */
  push(raw: string): void {
    const line = stripVTControlCharacters(raw).trim();
    if (noise.some((each) => each.test(line))) return;
    this.last = line;
    if (this.goesOn) this.first += ` ${line}`;
    this.goesOn = false;
    if (this.first !== '' || aWarning.test(line) || !anError.some((each) => each.test(line))) return;
    this.first = line;
    // The next line says more.
    this.goesOn = line.endsWith(':');
  }

  /** Returns the reason; empty if nothing was said. */
  get text(): string {
    return this.first === '' ? this.last : this.first;
  }
}

/**
 * Returns the sentence for the owner of a project whose command failed, such as "npm ci failed with exit code 1: <its first error>".
 */
export function commandFailure(command: string[], exitCode: number | null, reason: string): string {
  const words = command.filter((word) => !word.startsWith('-') && !word.includes('\n')).slice(0, 3);
  const said = reason.trim();
  const killed = exitCode === 137 ? ', which means that it was killed, most often for a lack of memory' : '';
  return `${words.join(' ').slice(0, 100)} failed with exit code ${exitCode ?? 'unknown'}${killed}${said === '' ? '.' : `: ${said}`}`;
}

/** Returns the command as one line of a log. Programs in an argument are left out. */
export function shownCommand(command: string[]): string {
  return command.map((word) => (word.includes('\n') ? '…' : word)).join(' ');
}

/** Matches folders in which engines store images, and their program that unpacks files. */
const enginePlace =
  /\/(overlay2?|vfs|btrfs|zfs|aufs|fuse-overlayfs|docker-builder|containerd|buildkit)[\w.-]*\/|\/var\/lib\/docker|tar file\(/;

/** Returns the engine's message about a build, or our own instead if it names folders of the engine's machine. */
export function withoutHostPaths(said: string): string {
  // The message about a command may contain the words of that command.
  if (said.startsWith('The command ') || !enginePlace.test(said)) return said;
  const [, reason] = /: ([a-z][a-z ]{2,40})$/.exec(said.trim()) ?? [];
  const why = reason === undefined ? '' : ` (${reason})`;
  return `The build could not write the files of a step${why}. Something is in their way, such as a file in the place of a folder.`;
}
