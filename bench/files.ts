import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

import { seenContainers } from '../test/support/engine.ts';
import { StartedService } from '../test/support/started-service.ts';
import { memoryMb, percentile, rounded, timed } from './support/figures.ts';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 8);
const FILE_BYTES = 100 * 1024 * 1024;
const FILE = new Blob([Buffer.alloc(FILE_BYTES)]);
const SMALL_CALLS = 20;
/** The program that is mounted in every agent's container. */
const busybox = '/.mooring/busybox';

/**
 * Measures an upload and a download of 100 MiB by the API against `dd` and `cat` by `docker exec` in the same container, and 20 lists against
 * `docker exec true`. Both take turns, so that they see the same machine; a ratio is the median of the rounds' ratios.
 */
export async function run(): Promise<object> {
  const service = await StartedService.start({ runtime: 'docker', environment: { MOORING_LOG_LEVEL: 'warn' } });
  try {
    const { body } = await service.call<{ id: string }>(
      'POST',
      '/api/agents',
      { name: 'bench', templateId: 'hello' },
      { prefer: 'wait=60' },
    );
    const agentId = body.id;
    const [seen] = await seenContainers(agentId);
    const id = seen?.id ?? '';
    const call = callsOf(service, agentId);
    const figures = {
      upload_100_mib: await inTurn(call.upload, () => dockerExec(['-i', id, busybox, 'dd', 'of=/data/other', 'bs=1M'], FILE)),
      download_100_mib: await inTurn(call.download, () => dockerExec([id, busybox, 'cat', '/data/large'])),
      lists_20: await inTurn(
        () => repeat(call.list),
        () => repeat(() => dockerExec([id, busybox, 'true'])),
      ),
      memory_mb: memoryMb(service.pid),
    };
    console.table(figures);
    return figures;
  } finally {
    await service.dispose();
  }
}

interface Calls {
  upload: () => Promise<void>;
  download: () => Promise<void>;
  list: () => Promise<void>;
}

function callsOf({ firstRun }: StartedService, agentId: string): Calls {
  const ask = async (path: string, init: RequestInit = {}): Promise<number> => {
    const headers = { authorization: `Bearer ${firstRun.api_key}` };
    const response = await fetch(`${firstRun.url}/api/agents/${agentId}/files/${path}`, { ...init, headers });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    let size = 0;
    if (response.body !== null) for await (const chunk of response.body) size += chunk.length;
    return size;
  };
  return {
    upload: async () => {
      const body = new FormData();
      body.set('dest_dir', '.');
      body.set('file', FILE, 'large');
      await ask('upload', { method: 'POST', body });
    },
    download: async () => {
      const headers = { authorization: `Bearer ${firstRun.api_key}` };
      const asking = get(`${firstRun.url}/api/agents/${agentId}/files/download?path=large`, { headers });
      const [response] = (await once(asking, 'response')) as [IncomingMessage];
      let size = 0;
      for await (const chunk of response) size += (chunk as Buffer).length;
      if (size !== FILE_BYTES) throw new Error(`${response.statusCode}: ${size} bytes were downloaded`);
    },
    list: async () => void (await ask('list')),
  };
}

async function dockerExec(args: string[], stdin?: Blob): Promise<void> {
  const child = spawn('docker', ['exec', ...args], { stdio: [stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'ignore'] });
  child.stdout?.resume();
  // If the program exits early, its exit code is checked below.
  child.stdin?.on('error', () => undefined);
  if (stdin !== undefined && child.stdin !== null) Readable.from(stdin.stream()).pipe(child.stdin);
  const [code] = (await once(child, 'close')) as [number];
  if (code !== 0) throw new Error(`docker exec ended with ${code}`);
}

async function repeat(work: () => Promise<void>): Promise<void> {
  for (let call = 0; call < SMALL_CALLS; call += 1) await work();
}

async function inTurn(mine: () => Promise<void>, limit: () => Promise<void>): Promise<object> {
  await mine();
  await limit();
  const rounds: { mine: number; limit: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push({ mine: await timed(mine), limit: await timed(limit) });
  const median = (of: (each: { mine: number; limit: number }) => number) => rounded(percentile(rounds.map(of), 0.5));
  return {
    mine_ms: median((each) => each.mine),
    limit_ms: median((each) => each.limit),
    speed_ratio: median((each) => each.limit / each.mine),
  };
}
