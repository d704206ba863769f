/** Kills the remaining processes of a process group. The group's id is not reused while one of its processes lives. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing of the group is left.
  }
}
