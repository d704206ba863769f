import { isDeepStrictEqual } from 'node:util';
import type Dockerode from 'dockerode';

import { capabilitiesOf, networkName } from '../engine/names.ts';
import { profileIn } from '../engine/seccomp-profile.ts';
import { builderLabels, builderName, cacheName, firstIdOf, type BuilderIdentity } from './builder-names.ts';
import { CACHE_FOLDER, startCommand } from './builder-start.ts';

/** The most processes of a builder and its steps together. */
export const BUILDER_PIDS_MAX = 512;
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Folders in memory, with their sizes in MiB. Files that steps write below /tmp are not there, but in the cache. */
const tmpfs = { '/tmp': 256, '/run': 64 };

export interface BuilderConfig {
  image: string;
  memoryBytes: number;
  cpus: number;
  /** The size of the cache that BuildKit keeps after a build, in MiB. */
  keepMb: number;
  /** The largest size of the cache during a build, in bytes, on engines with quotas of volumes. */
  cacheBytes: number;
  /** The most files in the cache. */
  filesMax: number;
  /** The text of the seccomp profile. */
  seccomp: string;
  /** The name of the AppArmor profile; null if the engine has no AppArmor. */
  appArmor: string | null;
}

/**
 * Returns the options of a builder's container. Its root has two capabilities, for the first two steps of its start, and nothing else may
 * ever run as root: /proc is not masked, which a user namespace needs to mount its own, so root could write the host's settings there.
 */
export function builderOptions(place: BuilderIdentity, means: BuilderConfig): Dockerode.ContainerCreateOptions {
  return {
    name: builderName(place),
    Image: means.image,
    Entrypoint: startCommand(firstIdOf(place), means),
    Cmd: [],
    Env: [`PATH=${PATH}`],
    User: '0:0',
    WorkingDir: '/',
    Hostname: 'builder',
    Labels: builderLabels(place),
    Healthcheck: { Test: ['NONE'] },
    OpenStdin: true,
    StdinOnce: true,
    HostConfig: {
      AutoRemove: true,
      CapDrop: ['ALL'],
      CapAdd: ['SETGID', 'SETUID'],
      SecurityOpt: ['no-new-privileges', `seccomp=${means.seccomp}`, ...(means.appArmor === null ? [] : [`apparmor=${means.appArmor}`])],
      Privileged: false,
      // Both lists are empty: with either of them, the steps' own /proc can't be mounted.
      MaskedPaths: [],
      ReadonlyPaths: [],
      ReadonlyRootfs: true,
      PidsLimit: BUILDER_PIDS_MAX,
      Memory: means.memoryBytes,
      MemorySwap: means.memoryBytes,
      NanoCpus: Math.round(means.cpus * 1e9),
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'none', Config: {} },
      NetworkMode: networkName(place.instance, 'builds'),
      Tmpfs: Object.fromEntries(Object.entries(tmpfs).map(([path, mb]) => [path, `rw,nosuid,nodev,mode=1777,size=${mb}m`])),
      Mounts: [{ Type: 'volume', Source: cacheName(place), Target: CACHE_FOLDER, ReadOnly: false }],
    },
  };
}

const isEmpty = (list: readonly unknown[] | null | undefined): boolean => (list ?? []).length === 0;

/**
 * Returns the names of settings that differ in the created builder, so that it must not start. MemorySwap is ignored, because a kernel
 * without swap accounting drops it.
 */
export function wrongBuilderSettings(asked: Dockerode.ContainerCreateOptions, made: Dockerode.ContainerInspectInfo): string[] {
  const want = asked.HostConfig as Dockerode.HostConfig & { MaskedPaths: string[]; ReadonlyPaths: string[] };
  const have = made.HostConfig as typeof want;
  const [mount] = want.Mounts ?? [];
  const [mounted] = made.Mounts;
  const checks: Record<string, boolean> = {
    Entrypoint: isDeepStrictEqual(made.Config.Entrypoint, asked.Entrypoint) && isEmpty(made.Config.Cmd),
    Env: isDeepStrictEqual(made.Config.Env, asked.Env),
    User: made.Config.User === asked.User,
    CapDrop: capabilitiesOf(have.CapDrop) === capabilitiesOf(want.CapDrop),
    CapAdd: capabilitiesOf(have.CapAdd) === capabilitiesOf(want.CapAdd),
    seccomp: profileIn(have.SecurityOpt) === profileIn(want.SecurityOpt),
    SecurityOpt: othersOf(have.SecurityOpt) === othersOf(want.SecurityOpt),
    Privileged: have.Privileged === false,
    MaskedPaths: isEmpty(have.MaskedPaths),
    ReadonlyPaths: isEmpty(have.ReadonlyPaths),
    ReadonlyRootfs: have.ReadonlyRootfs === true,
    PidsLimit: have.PidsLimit === want.PidsLimit,
    Memory: have.Memory === want.Memory,
    NanoCpus: have.NanoCpus === want.NanoCpus,
    NetworkMode: have.NetworkMode === want.NetworkMode,
    Tmpfs: isDeepStrictEqual({ ...have.Tmpfs }, { ...want.Tmpfs }),
    Devices: isEmpty(have.Devices) && isEmpty(have.DeviceRequests),
    Namespaces: [have.PidMode, have.UsernsMode, have.CgroupParent].every((mode) => !mode) && !/host|container/.test(have.IpcMode ?? ''),
    Binds: isEmpty(have.Binds) && isEmpty(have.VolumesFrom),
    Mounts:
      made.Mounts.length === 1 && mounted?.Type === 'volume' && mounted.Name === mount?.Source && mounted.Destination === mount?.Target,
  };
  return Object.entries(checks)
    .filter(([, isRight]) => !isRight)
    .map(([name]) => name);
}

/** Returns the options without the profile, in one spelling. */
function othersOf(options: readonly string[] | null | undefined): string {
  const others = (options ?? []).filter((option) => !option.startsWith('seccomp='));
  return others
    .map((option) => option.replace(/^(no-new-privileges):true$/, '$1'))
    .toSorted()
    .join();
}
