/** Last lines that do not say why a command failed. */
const noise =
  /^\s*$|A complete log of this run|Log files were not written|This is related to npm|^npm (notice|warn)|^npm (error|ERR!)(\s+\S+)?\s*$|^\[notice\]|^WARNING: /i;

/** Returns whether a line of output says nothing about a failure. */
export function isNoise(line: string): boolean {
  return noise.test(line);
}

/**
 * Returns the sentence for the owner of a project whose command failed, such as "npm ci failed with exit code 1: <its last line>". The line is
 * whole, because half a secret would not be recognized in it later.
 */
export function commandFailure(command: string[], exitCode: number | null, lastLine: string): string {
  const words = command.filter((word) => !word.startsWith('-') && !word.includes('\n')).slice(0, 3);
  const said = lastLine.trim();
  const killed = exitCode === 137 ? ', which means that it was killed, most often for a lack of memory' : '';
  return `${words.join(' ').slice(0, 100)} failed with exit code ${exitCode ?? 'unknown'}${killed}${said === '' ? '.' : `: ${said}`}`;
}

/** Folders in which engines keep images, and their program that unpacks files. */
const enginePlace =
  /\/(overlay2?|vfs|btrfs|zfs|aufs|fuse-overlayfs|docker-builder|containerd|buildkit)[\w.-]*\/|\/var\/lib\/docker|tar file\(/;

/** Returns the engine's message about a build, or our own in its place if it names folders of the engine's machine. */
export function withoutHostPaths(said: string): string {
  // A command names its own words.
  if (said.startsWith('The command ') || !enginePlace.test(said)) return said;
  const [, reason] = /: ([a-z][a-z ]{2,40})$/.exec(said.trim()) ?? [];
  const why = reason === undefined ? '' : ` (${reason})`;
  return `The build could not write the files of a step${why}. Something is in their way, such as a file in the place of a folder.`;
}
