import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.ts';
import { call, statusOf } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { helperProgram, labels, volumeName } from '../engine/names.ts';
import { findVolume } from './volumes.ts';

const mount = '/volumes';
/** The time that the engine has to end the container and hand its output over, ms. */
const END_MS = 10_000;

/**
 * Prints a line for each volume: its name, and its size in KiB or `long`. A program can make paths that are too long for any other one, so a
 * volume with such paths can't be measured. The last line of `du` is its sum, whatever names the files have.
 */
const script = `
box=$1 path=$2; shift 2
for name in "$@"; do
  "$box" du -skx "$path/$name/_data" 2>&1 |
    "$box" awk -v name="$name" '/File name too long/ { long = 1 } { last = $0 } END { split(last, part, "\\t"); if (long) print name " long"; else if (part[1] ~ /^[0-9]+$/) print name " " part[1] }'
done`;

/**
 * Returns the space that each agent's volume takes, in bytes: `Infinity` for one with paths that are too long to be measured. Volumes that do
 * not exist, or are not measured within `withinMs`, are left out. It runs one container with no network, half a core and no right but to
 * read, for all of them. Throws `RuntimeRefused` if the engine does not keep volumes in folders.
 */
export async function dockerVolumeSizes(
  docker: Dockerode,
  instance: string,
  image: string,
  agentIds: readonly string[],
  withinMs: number,
): Promise<Map<string, number>> {
  const folder = await volumeFolder(docker, agentIds);
  if (folder === null) return new Map();
  const options: Dockerode.ContainerCreateOptions = {
    Image: image,
    Entrypoint: [helperProgram, 'sh', '-c', script, 'sizes', helperProgram, mount, ...agentIds.map(volumeName)],
    Labels: { [labels.instance]: instance },
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
    return await call(null, () => sizesIn(logged as unknown as AsyncIterable<Buffer>, agentIds), withinMs + END_MS);
  } finally {
    clearTimeout(timer);
    await call(null, (abortSignal) => container.remove({ force: true, v: true, abortSignal })).catch((error: unknown) => {
      if (statusOf(error) !== 404) throw error;
    });
  }
}

/** Returns the folder of the engine's machine in which all volumes are; null if none of the agents has one. */
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

async function sizesIn(logged: AsyncIterable<Buffer>, agentIds: readonly string[]): Promise<Map<string, number>> {
  let text = '';
  for await (const { payload } of frames(logged)) text += payload.toString();
  const told = new Map([...text.matchAll(/^(\S+) (long|\d+)$/gm)].map(([, name = '', size = '']) => [name, size]));
  return new Map(
    agentIds.flatMap((agentId): [string, number][] => {
      const size = told.get(volumeName(agentId));
      return size === undefined ? [] : [[agentId, size === 'long' ? Infinity : Number(size) * 1024]];
    }),
  );
}
