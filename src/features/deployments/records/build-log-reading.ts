import type { EventStore } from '../../../eventsourcing/event-store/event-store.ts';

export const buildLogStream = (deploymentId: string) => `deployment-${deploymentId}`;

/** Returns the size of the line as JSON, in bytes. */
export function bytesOf(line: string): number {
  return Buffer.byteLength(JSON.stringify(line));
}

/** The end of a build log. */
export interface BuildLogEnd {
  lines: string[];
  /** The size of the lines as JSON, in bytes. */
  bytes: number;
  /** True if the log has earlier lines. */
  isCut: boolean;
}

/** Returns the last lines of the build log that have so many bytes together, as JSON. */
export async function endOfBuildLog(events: EventStore, deploymentId: string, bytesMax: number): Promise<BuildLogEnd> {
  const lines: string[] = [];
  let bytes = 0;
  for await (const { data } of events.readStream(buildLogStream(deploymentId), { backwards: true }))
    for (const line of (data as { lines: string[] }).lines.toReversed()) {
      const more = bytesOf(line);
      if (bytes + more > bytesMax) return { lines: lines.toReversed(), bytes, isCut: true };
      lines.push(line);
      bytes += more;
    }
  return { lines: lines.toReversed(), bytes, isCut: false };
}

/** Returns how many lines the build log has after the first one that is the text; null if none is. A later one may be what a program printed. */
export async function linesAfter(events: EventStore, deploymentId: string, text: string): Promise<number | null> {
  let count: number | null = null;
  for await (const { lines } of buildLogChunks(events, deploymentId, 0)) {
    const at: number = count === null ? lines.indexOf(text) : -1;
    if (count !== null) count += lines.length;
    else if (at !== -1) count = lines.length - 1 - at;
  }
  return count;
}

/** Yields the build log in the pieces in which it was written, from that piece on. */
export async function* buildLogChunks(
  events: EventStore,
  deploymentId: string,
  from: number,
): AsyncGenerator<{ index: number; lines: string[] }> {
  for await (const { revision, data } of events.readStream(buildLogStream(deploymentId), { from }))
    yield { index: revision, lines: (data as { lines: string[] }).lines };
}
