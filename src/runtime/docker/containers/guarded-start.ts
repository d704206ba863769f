import type Dockerode from 'dockerode';
import { LRUCache } from 'lru-cache';
import type { ContainerHandle } from '../../container.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import type { EngineHealth } from '../engine/engine-health.ts';
import { volumeName } from '../engine/names.ts';
import { AccountFiles, type Checked } from './account-files.ts';
import { startContainer } from './container-start.ts';
import type { ContainerLookup } from './container-lookup.ts';
import { asksForbiddenNames, hasOtherProfile, isUnprivileged } from './hardening.ts';
import { userNamespacesProfile } from '../engine/seccomp-profile.ts';

const HANGS =
  'The container engine does not finish the start of this container, and was asked twice. It may have to be restarted to remove it.';

/** The mount point of the volume of a container that has lost its volume. */
const DEFAULT_VOLUME_PATH = '/data';

/** Starts containers that the engine can start without harm to its machine or itself. */
export class GuardedStart {
  /** The containers whose start the engine did not finish, although it responded to other calls. */
  private readonly hung = new LRUCache<ContainerHandle, true>({ max: 1_000 });
  private readonly names = new LRUCache<ContainerHandle, string>({ max: 1_000 });
  private readonly accountFiles: AccountFiles;

  constructor(
    private readonly docker: Dockerode,
    private readonly identities: ContainerIdentities,
    private readonly containers: ContainerLookup,
    private readonly health: Pick<EngineHealth, 'available'>,
    /** The images that the service built, in which no text of a tenant has changed the account files. */
    private readonly images: { opensVolume(imageId: string, volumePath: string): boolean },
  ) {
    this.accountFiles = new AccountFiles(docker, identities);
  }

  /** Throws `RuntimeRefused` if no container of the image may be started with the volume at this path. */
  async checkImage(checked: Checked): Promise<void> {
    if (!this.images.opensVolume(checked.image, checked.volumePath)) await this.accountFiles.checkImage(checked);
  }

  /**
   * Returns false if the container has to be created again: its program has changed files that the engine would open, or an earlier release
   * created it with more rights than it may have. Throws `RuntimeRefused` if no container of its image may be started.
   */
  async isStartable(found: Dockerode.ContainerInspectInfo): Promise<boolean> {
    if (found.State.Running) return true;
    if (asksForbiddenNames(found, this.identities.instance) || hasOtherProfile(found, await userNamespacesProfile())) return false;
    this.names.set(found.Id, found.Name);
    const agentId = this.containers.identify(found)?.agentId ?? '';
    const volumePath = found.Mounts.find(({ Name }) => Name === volumeName(agentId))?.Destination ?? DEFAULT_VOLUME_PATH;
    const isOwn = this.images.opensVolume(found.Image, volumePath);
    if (isOwn && isUnprivileged(found.Config.User)) return true;
    const findings = isOwn
      ? { areLinked: false, areRoots: false }
      : await this.accountFiles.checkImage({ agentId, image: found.Image, volumePath });
    return this.accountFiles.areUnchanged(found, findings);
  }

  /**
   * Starts the container, with the agent's variables for its supervisor (see `ContainerRuntime.start`). Throws `RuntimeRefused` if the
   * engine hangs at its start for the second time, while it responds to other calls.
   */
  async start(handle: ContainerHandle, variables: Buffer): Promise<boolean> {
    try {
      const isOurs = await startContainer(this.docker.getContainer(handle), variables);
      this.hung.delete(handle);
      return isOurs;
    } catch (error) {
      if (!(error instanceof RuntimeUnavailable) || !isSilence(error) || !(await this.health.available())) throw error;
      if (this.hung.has(handle)) throw new RuntimeRefused(HANGS, { cause: error });
      this.hung.set(handle, true);
      this.containers.noteHung([handle, this.names.get(handle) ?? ''], HANGS);
      throw error;
    }
  }
}

/** Returns whether a call ended because there was no response in time. */
const isSilence = ({ cause }: RuntimeUnavailable): boolean => cause instanceof Error && cause.message.startsWith('no answer within');
