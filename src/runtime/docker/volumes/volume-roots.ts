import type Dockerode from 'dockerode';
import { filesInto } from '../engine/archive.ts';
import { tarOf } from '../image-sources/build-context.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { volumeName } from '../engine/names.ts';
import { withUnstarted } from '../engine/own-containers.ts';
import type { EnsuredVolume } from './volumes.ts';

const mount = '/.mooring-volume';
const REMEMBERED_MAX = 10_000;

/** The key includes the creation time, by which a volume differs from a removed one of the same name. */
const keyOf = (volume: Dockerode.VolumeInspectInfo): string => `${volume.Name} ${(volume as { CreatedAt?: string }).CreatedAt}`;

/**
 * Makes the roots of volumes writable for images that don't run as root. Only one agent ever sees a volume, so mode 0777 opens it to no
 * other. In general this uses a container that is never started, so that no program in it can race with the engine. It is the agent's
 * generation 0, so that one left by a crash is removed like every lower generation.
 *
 * This takes longer than everything else before a start. For a volume that this process has just created and an image that we built, the
 * mode therefore comes from the image: the engine gives the root the mode of the empty folder that the image has at the mount point.
 */
export class VolumeRoots {
  private readonly untouched = new Set<string>();
  private readonly opened = new Set<string>();
  private readonly opening = new Map<string, Promise<void>>();

  constructor(
    private readonly docker: Dockerode,
    private readonly identities: ContainerIdentities,
  ) {}

  /** Records a new volume as one that no container has been created with yet. */
  made({ volume, isNew }: EnsuredVolume): Dockerode.VolumeInspectInfo {
    if (isNew) remember(this.untouched, keyOf(volume));
    return volume;
  }

  isUntouched(volume: Dockerode.VolumeInspectInfo): boolean {
    return this.untouched.has(keyOf(volume));
  }

  /** Records that a container was created with the volume; with `isOpen`, its image has opened the root. */
  mounted(volume: Dockerode.VolumeInspectInfo, isOpen: boolean): void {
    this.untouched.delete(keyOf(volume));
    if (isOpen) remember(this.opened, keyOf(volume));
  }

  async open(agentId: string, volume: Dockerode.VolumeInspectInfo, image: string): Promise<void> {
    const key = keyOf(volume);
    if (this.opened.has(key)) return;
    const opening = this.opening.get(key) ?? this.openRoot(agentId, image).finally(() => this.opening.delete(key));
    this.opening.set(key, opening);
    await opening;
    remember(this.opened, key);
  }

  private async openRoot(agentId: string, image: string): Promise<void> {
    const hostConfig = {
      Mounts: [{ Type: 'volume' as const, Source: volumeName(agentId), Target: mount, ReadOnly: false, VolumeOptions: { NoCopy: true } }],
    } as Dockerode.HostConfig;
    const tar = tarOf([{ name: `${mount.slice(1)}/`, type: 'directory', mode: 0o777 }]);
    await withUnstarted(this.docker, this.identities, { agentId, image, hostConfig }, (container) => filesInto(container, '/', tar));
  }
}

/** Losing an entry only costs time. */
function remember(set: Set<string>, key: string): void {
  if (set.size >= REMEMBERED_MAX) set.clear();
  set.add(key);
}
