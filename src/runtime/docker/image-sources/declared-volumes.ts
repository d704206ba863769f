import type Dockerode from 'dockerode';
import { withoutLast } from '../../../kernel/text/without-last.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { helperMount } from '../engine/names.ts';

/** The largest number of volumes that an image may declare: the engine creates each of them for every container. */
const VOLUMES_MAX = 32;

type Image = Pick<Dockerode.ImageInspectInfo, 'Config'>;

/** Returns the mount points of the volumes that the image declares, except those where the service mounts its own volumes. */
export function declaredVolumes({ Config }: Image, ownPaths: readonly string[]): string[] {
  const own = new Set([...ownPaths, helperMount]);
  return Object.keys(Config.Volumes ?? {})
    .filter((path) => !own.has(withoutLast('/', path)))
    .toSorted();
}

/** Returns the line for a build log about these volumes; null if there are none. */
export function volumesLine(image: Image, volumePath: string): string | null {
  const [first, ...others] = declaredVolumes(image, [volumePath]);
  if (first === undefined) return null;
  const named = others.length === 0 ? `the volume ${first}` : `the volumes ${[first, ...others].join(', ')}`;
  return `The image declares ${named}. What is kept there stays while the agent sleeps, and is gone after the next deployment; ${volumePath} stays.`;
}

/** Throws `RuntimeRefused` for an image that declares too many volumes. */
export function refuseManyVolumes(image: Image): void {
  const { length } = declaredVolumes(image, []);
  if (length > VOLUMES_MAX) throw new RuntimeRefused(`The image declares ${length} volumes, and ${VOLUMES_MAX} is the most.`);
}
