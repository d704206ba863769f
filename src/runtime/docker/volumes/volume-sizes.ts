import type Dockerode from 'dockerode';
import type { MeasureBounds, VolumeSize } from '../../files.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { eachContainer } from '../engine/bulk-list.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { call } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { helperProgram, isAnonymousVolume, labels, volumeName } from '../engine/names.ts';
import { removeContainer } from '../engine/own-containers.ts';
import { findVolume } from './volumes.ts';

const mount = '/volumes';
/** The time that the engine has to stop the container and return its output, in ms. */
const END_MS = 10_000;
/** The largest number of volumes that are measured at a time. Their names form one command, whose length the kernel limits. */
const VOLUMES_MAX = 8_000;

/**
 * Prints a line for each volume: its name, and its size in KiB and the number of its entries, or `long`, or `many`. A program can create
 * paths that are too long for any other program, so a volume with such paths can't be measured. Counting stops at the limit, so that the
 * measurement takes no longer for more files. The last line of `du` is its sum, whatever names the files have.
 */
const script = `
box=$1 path=$2 most=$3; shift 3
for name in "$@"; do
  "$box" du -akx "$path/$name/_data" 2>&1 | "$box" awk -v name="$name" -v most="$most" '
    /^du: .*: File name too long$/ { long = 1 }
    /^[0-9]+\t/ { if (++count > most) { many = 1; exit } }
    { last = $0 }
    END {
      split(last, part, "\t")
      if (many) print name " many"
      else if (long) print name " long"
      else if (part[1] ~ /^[0-9]+$/) print name " " part[1] " " count
    }'
done`;

export interface MeasurePlace {
  docker: Dockerode;
  identities: ContainerIdentities;
  /** An image with the helper program. */
  image: string;
}

/**
 * Returns how much space each agent uses in its volume and in those that its image declares: `Infinity` for paths that are too long to be
 * measured, and for more files than the limit. Agents without a volume, or whose volumes are not all measured in time, are left out. Runs
 * one container for all of them, with no network, half a core and only read permission. Throws `RuntimeRefused` if the engine does not
 * store volumes in folders.
 */
export async function dockerVolumeSizes(
  { docker, identities, image }: MeasurePlace,
  agentIds: readonly string[],
  { withinMs, filesMax }: MeasureBounds,
): Promise<Map<string, VolumeSize>> {
  const folder = await volumeFolder(docker, agentIds);
  if (folder === null) return new Map();
  const volumes = await volumesOf(docker, identities, agentIds);
  const options: Dockerode.ContainerCreateOptions = {
    Image: image,
    Entrypoint: [helperProgram, 'sh', '-c', script, 'sizes', helperProgram, mount, String(filesMax), ...[...volumes.values()].flat()],
    Labels: { [labels.instance]: identities.instance },
    HostConfig: {
      NetworkMode: 'none',
      UsernsMode: 'host',
      CapDrop: ['ALL'],
      CapAdd: ['DAC_READ_SEARCH'],
      SecurityOpt: ['no-new-privileges:true'],
      ReadonlyRootfs: true,
      Memory: 128 * 1024 * 1024,
      NanoCpus: 500_000_000,
      PidsLimit: 16,
      Mounts: [{ Type: 'bind', Source: folder, Target: mount, ReadOnly: true }],
      LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
    },
  };
  const container = await call(null, (abortSignal) => docker.createContainer({ ...options, abortSignal }));
  let timer: NodeJS.Timeout | undefined;
  try {
    await call(null, (abortSignal) => container.start({ abortSignal }));
    timer = setTimeout(() => void container.kill().catch(() => undefined), withinMs);
    const logged = await call(null, () => container.logs({ stdout: true, follow: true }));
    return await call(null, () => sizesIn(logged as unknown as AsyncIterable<Buffer>, volumes), withinMs + END_MS);
  } finally {
    clearTimeout(timer);
    await removeContainer(container);
  }
}

/**
 * Returns the names of the volumes of each agent, as far as they all fit into one command: the agent's own, and those that its image
 * declares.
 */
async function volumesOf(docker: Dockerode, identities: ContainerIdentities, agentIds: readonly string[]): Promise<Map<string, string[]>> {
  const volumes = new Map(agentIds.map((agentId) => [agentId, [volumeName(agentId)]]));
  await eachContainer(docker, [`${labels.instance}=${identities.instance}`, labels.agent], ({ Names, Labels, Mounts }) => {
    const known = identities.identify(Names, Labels);
    if (known === null) return;
    const declared = (Mounts ?? []).flatMap(({ Type, Name = '' }) => (Type === 'volume' && isAnonymousVolume(Name) ? [Name] : []));
    volumes.get(known.agentId)?.push(...declared);
  });
  let count = 0;
  return new Map([...volumes].filter(([, names]) => (count += names.length) <= VOLUMES_MAX));
}

/** Returns the folder of the engine's machine that contains all volumes; null if none of the agents has one. */
async function volumeFolder(docker: Dockerode, agentIds: readonly string[]): Promise<string | null> {
  for (const agentId of agentIds) {
    const name = volumeName(agentId);
    const volume = await findVolume(docker, name);
    if (volume === null) continue;
    const end = `/${name}/_data`;
    if (!volume.Mountpoint.endsWith(end)) throw new RuntimeRefused('the engine does not keep volumes in folders of its machine');
    return volume.Mountpoint.slice(0, -end.length);
  }
  return null;
}

async function sizesIn(logged: AsyncIterable<Buffer>, volumes: ReadonlyMap<string, string[]>): Promise<Map<string, VolumeSize>> {
  let text = '';
  for await (const { payload } of frames(logged)) text += payload.toString();
  const told = new Map([...text.matchAll(/^(\S+) (long|many|\d+ \d+)$/gm)].map(([, name = '', size = '']) => [name, sizeOf(size)]));
  return new Map(
    [...volumes].flatMap(([agentId, names]): [string, VolumeSize][] => {
      const sizes = names.map((name) => told.get(name));
      // Volumes that the agent's container has lost meanwhile, or that were not measured in time, are not reported.
      if (sizes.includes(undefined)) return [];
      const sum = (key: keyof VolumeSize) => sizes.reduce((all, size) => all + (size?.[key] ?? 0), 0);
      return [[agentId, { bytes: sum('bytes'), files: sum('files') }]];
    }),
  );
}

function sizeOf(told: string): VolumeSize {
  if (told === 'many') return { bytes: Infinity, files: Infinity };
  if (told === 'long') return { bytes: Infinity, files: 0 };
  const [kibibytes, files] = told.split(' ').map(Number);
  return { bytes: (kibibytes ?? 0) * 1024, files: files ?? 0 };
}
