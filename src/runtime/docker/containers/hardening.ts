import { isDeepStrictEqual } from 'node:util';
import type Dockerode from 'dockerode';
import { allowedEntry } from '../../../kernel/network/allow-list.ts';
import type { ContainerSpec } from '../../container.ts';
import type { AssignedAddresses } from '../networks/egress-proxy.ts';
import type { PublishedPorts } from '../networks/published-ports.ts';
import { portBindings } from '../networks/published-ports.ts';
import type { TmpfsMount } from '../../tmpfs-mount.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import {
  capabilitiesOf,
  helperMount,
  isAnonymousVolume,
  isShut,
  labels,
  networkKinds,
  networkName,
  supervisorProgram,
  volumeName,
  type Labels,
  type NetworkKind,
} from '../engine/names.ts';
import { profileIn } from '../engine/seccomp-profile.ts';

/**
 * The capabilities that the start scripts of ordinary images need as root, and no others: to pass their folders to a user (CHOWN,
 * DAC_OVERRIDE, FOWNER), become that user (SETUID, SETGID), end what they started (KILL), and listen below 1024 (NET_BIND_SERVICE).
 */
const capabilities = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'KILL', 'NET_BIND_SERVICE', 'SETGID', 'SETUID'];

/**
 * The name server of agents that may reach nothing by themselves: none. An engine before 26.0 would query one on the loopback address of
 * its host from the host, where no rule applies to the agent. With this setting it queries in the agent's own network.
 */
const NO_NAMES = ['127.0.0.1'];
const mayAskNames = (kind: NetworkKind): boolean => !isShut(kind);

/** Returns whether an earlier release created the container with another profile for user namespaces. */
export function hasOtherProfile({ HostConfig }: Dockerode.ContainerInspectInfo, profile: string): boolean {
  return !['', profile].includes(profileIn(HostConfig.SecurityOpt));
}

/** Returns whether an earlier release created the container with name servers although the agent may reach nothing. */
export function asksForbiddenNames({ HostConfig }: Dockerode.ContainerInspectInfo, instance: string): boolean {
  const kind = networkKinds.find((each) => networkName(instance, each) === HostConfig.NetworkMode);
  return kind !== undefined && !mayAskNames(kind) && (HostConfig.Dns ?? []).join() !== NO_NAMES.join();
}

export interface ContainerEnvironment {
  identities: ContainerIdentities;
  network: NetworkKind;
  /** The addresses of an agent on the listed network; null on any other. */
  listed: AssignedAddresses | null;
  helperVolume: string;
  /** The user in the engine's form; null means the image's own. */
  user: string | null;
  /** The command that the supervisor starts. */
  command: readonly string[];
  ociRuntime: string | null;
  /** The seccomp profile; null means the engine's own. */
  seccomp: string | null;
  /** The ports that are published for agents if containers can't be reached by their own addresses; otherwise null. */
  published: PublishedPorts | null;
  /**
   * The value is true if the volume is new and our own image has an empty folder at its mount point, which gives the volume's root its
   * mode.
   */
  rootFromImage: boolean;
}

export function createOptions(spec: ContainerSpec, around: ContainerEnvironment): Dockerode.ContainerCreateOptions {
  const port = `${spec.port}/tcp`;
  const { identities } = around;
  const network = networkName(identities.instance, around.network);
  return {
    name: identities.nameOf(spec),
    Image: spec.image,
    // The whole command is in Entrypoint, so that the image's own entry point does not run before it.
    Entrypoint: [supervisorProgram, 'init', ...around.command],
    Cmd: [],
    // The agent's variables are sent to its standard input when it starts, so that the engine shows them to nobody.
    Env: Object.entries(proxyVariables(around.listed)).map(([name, value]) => `${name}=${value}`),
    AttachStdin: true,
    OpenStdin: true,
    StdinOnce: true,
    Hostname: identities.hostNameOf(spec.agentId),
    ...(around.user === null ? {} : { User: around.user }),
    Labels: identities.labelsOf(spec, listedLabels(spec, around.listed)),
    StopTimeout: 10,
    // An image's own health check would run a program in every idle agent; readiness is checked from outside.
    Healthcheck: { Test: ['NONE'] },
    ...(around.published === null ? {} : { ExposedPorts: { [port]: {} } }),
    HostConfig: {
      CapDrop: ['ALL'],
      CapAdd: capabilities,
      SecurityOpt: ['no-new-privileges:true', ...(around.seccomp === null ? [] : [`seccomp=${around.seccomp}`])],
      Privileged: false,
      Init: false,
      PidsLimit: spec.pids,
      Ulimits: [{ Name: 'nofile', Soft: spec.openFiles, Hard: spec.openFiles }],
      Memory: spec.memoryBytes,
      MemorySwap: spec.memoryBytes,
      NanoCpus: Math.round(spec.cpus * 1e9),
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '3' } },
      NetworkMode: network,
      ...(mayAskNames(around.network) ? {} : { Dns: NO_NAMES }),
      ReadonlyRootfs: spec.readOnlyRoot,
      Tmpfs: Object.fromEntries(spec.tmpfs.map((mount) => [mount.path, tmpfsOptions(around.user, mount)])),
      ...(spec.shmBytes === null ? {} : { ShmSize: spec.shmBytes }),
      Mounts: mounts(spec, around),
      ...(around.ociRuntime === null ? {} : { Runtime: around.ociRuntime }),
      ...(around.published === null ? {} : { PortBindings: portBindings(spec.port, around.published) }),
    },
    ...(around.listed === null
      ? {}
      : { NetworkingConfig: { EndpointsConfig: { [network]: { IPAMConfig: { IPv4Address: around.listed.address } } } } }),
  };
}

/** Returns the labels from which the proxy's table is built. */
function listedLabels({ egress }: ContainerSpec, listed: AssignedAddresses | null): Labels {
  if (listed === null || typeof egress === 'string') return {};
  return {
    [labels.allow]: JSON.stringify(egress.allow.map(allowedEntry).filter((entry) => entry !== null)),
    [labels.address]: listed.address,
  };
}

const proxyNames = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'];

/** Returns the variables, in both cases, by which programs find their proxy. */
function proxyVariables(listed: AssignedAddresses | null): Record<string, string> {
  if (listed === null) return {};
  const values = [listed.proxy, listed.proxy, 'localhost,127.0.0.1,::1'];
  return Object.fromEntries(
    proxyNames.flatMap((name, at) => [
      [name, values[at] ?? ''],
      [name.toLowerCase(), values[at] ?? ''],
    ]),
  );
}

/** Returns the proxy variables that a container must not have. Programs read either case, so one that the user sets replaces both. */
export function replacedVariables(environment: Readonly<Record<string, string>>): string[] {
  const own = new Set(Object.keys(environment).map((name) => name.toUpperCase()));
  return proxyNames.filter((name) => own.has(name)).flatMap((name) => [name, name.toLowerCase()]);
}

/**
 * Such a folder belongs to the container's user, whatever its mode: runc gives it the owner of the folder beneath, which is the image's own
 * or, from the second start on, the one that runc has created for it.
 */
function tmpfsOptions(user: string | null, { uid, mode = 0o1777, sizeBytes, exec = false }: TmpfsMount): string {
  const [id, group] = uid === undefined ? idsOf(user) : [uid, uid];
  const owner = id === undefined ? [] : [`uid=${id}`, `gid=${group ?? id}`];
  const size = sizeBytes === undefined ? [] : [`size=${sizeBytes}`];
  return ['rw', 'nosuid', 'nodev', `mode=${mode.toString(8)}`, ...owner, ...size, ...(exec ? ['exec'] : [])].join(',');
}

/** Returns the number of a user that is given by number, and that of its group if that is given too. */
function idsOf(user: string | null): string[] {
  return (/^(\d+)(?::(\d+))?$/.exec(user ?? '') ?? []).slice(1);
}

function mounts(spec: ContainerSpec, around: ContainerEnvironment): Dockerode.MountSettings[] {
  const volume = (Source: string, Target: string, ReadOnly: boolean, NoCopy: boolean): Dockerode.MountSettings => ({
    Type: 'volume',
    Source,
    Target,
    ReadOnly,
    // Nothing of a foreign image is copied into a volume: a link at the mount point could redirect the copy.
    VolumeOptions: { NoCopy, Labels: {}, DriverConfig: { Name: '', Options: {} } },
  });
  const own = [volume(volumeName(spec.agentId), spec.volumePath, false, !around.rootFromImage)];
  return [...own, volume(around.helperVolume, helperMount, true, true)];
}

/**
 * Returns the names of settings that the engine accepted but did not apply, as engines do if their kernel lacks a feature. MemorySwap is
 * ignored, because a kernel without swap accounting drops it, and the memory limit applies nevertheless.
 */
export function ignoredSettings(asked: Dockerode.ContainerCreateOptions, made: Dockerode.ContainerInspectInfo): string[] {
  const want = asked.HostConfig ?? {};
  const have = made.HostConfig;
  const known = new Set((want.Mounts ?? []).map((mount) => mount.Source));
  const security: string[] = have.SecurityOpt ?? [];
  const checks: Record<string, boolean> = {
    CapDrop: capabilitiesOf(have.CapDrop) === 'ALL',
    CapAdd: capabilitiesOf(have.CapAdd) === capabilitiesOf(want.CapAdd),
    'no-new-privileges': security.some((option) => /^no-new-privileges(:true)?$/.test(option)),
    seccomp: !security.some((option) => /unconfined/.test(option)) && profileIn(security) === profileIn(want.SecurityOpt),
    Privileged: have.Privileged === false,
    Init: have.Init !== true,
    User: asked.User === undefined || made.Config.User === asked.User,
    Entrypoint: made.Path === supervisorProgram,
    OpenStdin: made.Config.OpenStdin && made.Config.StdinOnce,
    PidsLimit: have.PidsLimit === want.PidsLimit,
    Ulimits: isDeepStrictEqual(limitsOf(have), limitsOf(want)),
    Memory: have.Memory === want.Memory,
    NanoCpus: have.NanoCpus === want.NanoCpus,
    RestartPolicy: (have.RestartPolicy?.Name ?? '') === 'no',
    LogConfig: have.LogConfig?.Type === 'json-file' && (have.LogConfig.Config as Record<string, string>)['max-size'] === '10m',
    NetworkMode: have.NetworkMode === want.NetworkMode,
    Dns: want.Dns === undefined || (have.Dns ?? []).join() === want.Dns.join(),
    ReadonlyRootfs: have.ReadonlyRootfs === want.ReadonlyRootfs,
    Tmpfs: isDeepStrictEqual({ ...have.Tmpfs }, { ...want.Tmpfs }),
    ShmSize: want.ShmSize === undefined || have.ShmSize === want.ShmSize,
    Runtime: want.Runtime === undefined || have.Runtime === want.Runtime,
    Binds: (have.Binds ?? []).length === 0,
    // Besides ours, only the anonymous volumes that the image itself declares are allowed.
    Mounts: made.Mounts.every((mount) => known.has(mount.Name ?? '') || (mount.Type === 'volume' && isAnonymousVolume(mount.Name ?? ''))),
    MountsMade: (want.Mounts ?? []).every((mount) =>
      made.Mounts.some((found) => found.Destination === mount.Target && found.RW === !mount.ReadOnly && found.Name === mount.Source),
    ),
  };
  return Object.entries(checks)
    .filter(([, kept]) => !kept)
    .map(([name]) => name);
}

const limitsOf = ({ Ulimits }: Dockerode.HostConfig): unknown[] =>
  ((Ulimits ?? []) as { Name: string; Soft: number; Hard: number }[]).map(({ Name, Soft, Hard }) => [Name, Soft, Hard]);

/** Returns whether the user of an image or a container is not root. */
export const isUnprivileged = (user: string | undefined): boolean => !/^(|0|root)(:.*)?$/.test(user ?? '');
