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
