import type Dockerode from 'dockerode';
import type { ContainerSpec, ContainerView } from '../../container.ts';
import { ImageGone, RuntimeRefused } from '../../runtime.errors.ts';
import type { EngineChecks } from '../engine/engine-checks.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { isListedKind } from '../engine/names.ts';
import { refuseManyVolumes } from '../image-sources/declared-volumes.ts';
import { refuseLargeConfig } from '../image-sources/large-config.ts';
import { refuseOwnLabels } from '../image-sources/own-labels.ts';
import { findPinned } from '../image-sources/registry.ts';
import type { AgentVolumes } from '../volumes/agent-volumes.ts';
import type { HelperVolume } from '../volumes/helper-volume.ts';
import type { AgentParts } from './agent-start.ts';
import { view } from './container-view.ts';
import { createOptions, ignoredSettings, isUnprivileged } from './hardening.ts';
import { userFor } from './own-user.ts';
import { userNamespacesProfile } from '../engine/seccomp-profile.ts';

interface CreationParts extends AgentParts {
  docker: Dockerode;
  engine: Pick<EngineChecks, 'hasFewIds'>;
  identities: ContainerIdentities;
  ociRuntime: string | null;
  /** The images that the service built. */
  sources: { opensVolume(imageId: string, volumePath: string): boolean };
  volumes: AgentVolumes;
  helper: HelperVolume;
}

/** Creates agents' containers, with their volumes and networks. */
export class AgentCreation {
  constructor(private readonly parts: CreationParts) {}

  /** Creates the container without starting it (see `ContainerRuntime.create`). */
  async create(spec: ContainerSpec): Promise<ContainerView> {
    const { agentEgress, containers, helper, identities, life, networks, ociRuntime, reach, volumes } = this.parts;
    const network = await networks.kindFor(spec.egress);
    // The engine itself creates missing volumes and networks that a container names, but without our labels, so all of them are ensured
    // first.
    const [helperVolume, volume, image, user] = await Promise.all([
      helper.ensure(),
      volumes.ensure(spec.agentId),
      this.imageOf(spec),
      this.userOf(spec),
      networks.ensure(network),
    ]);
    const rootFromImage = this.parts.sources.opensVolume(image.Id, spec.volumePath) && volumes.roots.isUntouched(volume);
    if (!rootFromImage && isUnprivileged(user ?? image.Config.User)) await volumes.roots.open(spec.agentId, volume, image.Id);
    const [published, seccomp] = await Promise.all([reach.published(), spec.userNamespaces ? userNamespacesProfile() : null]);
    agentEgress.assertEnforceable(network);
    const listed = isListedKind(network) ? await agentEgress.assign(network) : null;
    // The image is given by its id, since an engine may not know it by the pin by which it was found.
    const found = { ...spec, image: image.Id };
    const command = spec.command ?? [image.Config.Entrypoint ?? [], image.Config.Cmd ?? []].flat();
    if (command.length === 0) throw new RuntimeRefused('The image has no command, and the agent none of its own.');
    const place = { identities, user, network, listed, helperVolume, published, rootFromImage };
    const options = createOptions(found, { ...place, command, ociRuntime, seccomp });
    containers.expect(spec);
    const container = await life.createOrAdopt(identities.nameOf(spec), options);
    volumes.roots.mounted(volume, rootFromImage);
    if (isListedKind(network)) await agentEgress.settleListed(network);
    return this.checked(spec, options, await containers.inspect(container.id));
  }

  private async userOf({ agentId, user }: ContainerSpec): Promise<string | null> {
    const { engine, identities } = this.parts;
    return userFor(user, agentId, identities, typeof user === 'object' && user !== null && (await engine.hasFewIds()));
  }

  /** Returns the pinned image. Throws `RuntimeRefused` if no container may be created from it. */
  private async imageOf(spec: ContainerSpec): Promise<Dockerode.ImageInspectInfo> {
    const { docker, identities, starts } = this.parts;
    const image = await findPinned(docker, spec.image);
    if (image === null) throw new ImageGone(spec.image);
    refuseOwnLabels(image.Config.Labels, identities.instance);
    refuseManyVolumes(image);
    refuseLargeConfig(image.Config);
    await starts.checkImage({ ...spec, image: image.Id });
    return image;
  }

  /** Removes the container and throws `RuntimeRefused` if the engine did not apply all of its settings. */
  private async checked(
    { agentId, generation, deploymentId }: ContainerSpec,
    options: Dockerode.ContainerCreateOptions,
    made: Dockerode.ContainerInspectInfo,
  ): Promise<ContainerView> {
    const ignored = ignoredSettings(options, made);
    if (ignored.length === 0) return view({ agentId, generation, deploymentId }, made);
    await this.parts.life.remove(made.Id);
    throw new RuntimeRefused(`The container engine ignored these settings, so the container was removed: ${ignored.join(', ')}.`);
  }
}
