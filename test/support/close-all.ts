/** Something that a test opened, and that holds processes, mounts or connections; undefined if it was not opened. */
type Opened = { close(): Promise<void> } | undefined;

/**
 * Closes each in turn, even if an earlier one fails: a resource that stays open would keep the test run from ending. Throws the first
 * failure.
 */
export async function closeAll(...opened: Opened[]): Promise<void> {
  const failures: unknown[] = [];
  for (const each of opened) await each?.close().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}
