import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call } from './engine.ts';
import { jsonObjects } from './json-objects.ts';
import { labels } from './names.ts';
import { noteOversized } from './oversized.ts';

/** The most changes of a container that are read, because a program can create any number of files. */
const CHANGES_MAX = 200_000;

/**
 * Lists all containers with these labels and passes each to `keep` as it arrives, so that only the results stay in memory. Throws
 * `RuntimeUnavailable`.
 */
export function eachContainer<R>(docker: Dockerode, label: string[], keep: (listed: Dockerode.ContainerInfo) => R): Promise<R[]> {
  const filters = JSON.stringify({ label });
  return bulkList(docker, '/containers/json?', { all: true, filters }, 1, (object) => keep(object as Dockerode.ContainerInfo));
}

/**
 * Lists all volumes with these labels and passes each to `keep` as it arrives, so that only the results stay in memory. Throws
 * `RuntimeUnavailable`.
 */
export function eachVolume<R>(docker: Dockerode, label: string[], keep: (listed: Dockerode.VolumeInspectInfo) => R): Promise<R[]> {
  const filters = JSON.stringify({ label });
  return bulkList(docker, '/volumes?', { filters }, 2, (object) => keep(object as Dockerode.VolumeInspectInfo));
}

/** Lists the ids of the agent's containers by label, whatever their names. The engine examines each of its containers for this. */
export function containerIdsOf(docker: Dockerode, instance: string, agentId: string): Promise<string[]> {
  return eachContainer(docker, [`${labels.instance}=${instance}`, `${labels.agent}=${agentId}`, labels.generation], ({ Id }) => Id);
}

/**
 * Passes on each path that differs between a container and its image, and whether it was changed, added or removed (0, 1, 2). Throws
 * `RuntimeRefused` if there are too many.
 */
export async function eachChange(docker: Dockerode, id: string, note: (change: { Path: string; Kind: number }) => void): Promise<void> {
  let count = 0;
  const counted = (change: unknown): void => {
    if (++count > CHANGES_MAX) throw new RuntimeRefused(`The container has more than ${CHANGES_MAX} changes.`);
    note(change as { Path: string; Kind: number });
  };
  await bulkList(docker, `/containers/${id}/changes?`, {}, 1, counted, id);
}

async function bulkList<R>(
  docker: Dockerode,
  path: string,
  options: object,
  depth: 1 | 2,
  keep: (object: unknown) => R,
  handle: string | null = null,
): Promise<R[]> {
  return call(handle, async (abortSignal) => {
    const kept: R[] = [];
    const onSkip = (): void => noteOversized(docker, 'list');
    for await (const objects of jsonObjects(await open(docker, path, options, abortSignal), depth, onSkip))
      for (const object of objects) kept.push(keep(object));
    return kept;
  });
}

function open(docker: Dockerode, path: string, options: object, abortSignal: AbortSignal): Promise<AsyncIterable<Buffer>> {
  const request = {
    path,
    method: 'GET',
    options,
    abortSignal,
    isStream: true,
    statusCodes: { 200: true, 400: 'refused', 404: 'no such container', 500: 'failed' },
  };
  return new Promise((resolve, reject) => {
    docker.modem.dial(request, (error: Error | null, answer: unknown) =>
      error === null ? resolve(answer as AsyncIterable<Buffer>) : reject(error),
    );
  });
}
