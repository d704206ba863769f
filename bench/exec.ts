import { readFileSync } from 'node:fs';

import Dockerode from 'dockerode';

import { seenContainers } from '../test/support/engine.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { EngineExec, HELPER } from './support/engine-exec.ts';
import { machineLoad, percentile, rounded, summary, timed } from './support/figures.ts';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 60);
const WARM_ROUNDS = 20;
const FIRST_WRITES = Number(process.env.BENCH_AGENTS ?? 8);
const WAKES = 20;
const CALLERS = 8;
const CALLERS_MS = 4_000;
const SMALL = 'x'.repeat(1_024);

const aims = { exec_p50_ms: 3, read_p50_ms: 1.5, first_write_p50_ms: 5, commands_a_second: 400, frozen_wake_p50_ms: 60, idle_mb: 0.5 };

/**
 * Measures a command and a small file through the service, compared with `exec` of the engine's API in the same container, in alternation.
 * The ratio is that of the medians. The first write is the first one ever of an agent, after one command.
 */
export async function run(): Promise<object> {
  const service = await StartedService.start({ runtime: 'docker', environment: { MOORING_LOG_LEVEL: 'warn' } });
  const bench = new ExecBench(service);
  try {
    await bench.prepare();
    const times = {
      exec: await bench.exec(),
      read_1_kb: await bench.read(),
      write_1_kb: await bench.write(),
      first_write: await bench.firstWrites(),
      frozen_wake: await bench.frozenWakes(),
    };
    console.table(times);
    const callers = await bench.callers();
    const idle_mb = await bench.idleMemory();
    console.table({ callers, idle_mb });
    return { aims, ...times, callers, idle_mb, load: machineLoad() };
  } finally {
    await bench.clean();
    await service.dispose();
  }
}

class ExecBench {
  private readonly docker = new Dockerode();
  private agentId = '';
  private engine = new EngineExec(this.docker.getContainer(''));
  private bare: Dockerode.Container | null = null;

  constructor(private readonly service: StartedService) {}

  async prepare(): Promise<void> {
    [this.agentId, this.engine] = await this.agent();
    await this.command(this.agentId);
    await this.put(this.agentId, 'small');
  }

  async clean(): Promise<void> {
    await this.bare?.remove({ force: true, v: true });
  }

  exec(): Promise<object> {
    return inTurns(
      () => this.engine.run([HELPER, 'true']),
      () => this.command(this.agentId),
    );
  }

  read(): Promise<object> {
    return inTurns(
      () => this.engine.run([HELPER, 'cat', '/data/small']),
      () => this.download(),
    );
  }

  write(): Promise<object> {
    return inTurns(
      () => this.engine.run([HELPER, 'sh', '-c', `echo ${SMALL} > /data/other`]),
      () => this.put(this.agentId, 'small'),
    );
  }

  async firstWrites(): Promise<object> {
    const [bare, ours]: number[][] = [[], []];
    for (let n = 0; n < FIRST_WRITES; n += 1) {
      const [agentId, engine] = await this.agent();
      await this.command(agentId);
      bare?.push(await timed(() => engine.run([HELPER, 'sh', '-c', `echo ${SMALL} > /data/other`])));
      ours?.push(await timed(() => this.put(agentId, 'first')));
      await this.service.call('DELETE', `/api/v1/agents/${agentId}`);
    }
    return compared(bare ?? [], ours ?? []);
  }

  /** The engine pauses a separate container, since the service manages those of agents. */
  async frozenWakes(): Promise<object> {
    const container = await this.bareContainer();
    const engine = new EngineExec(container);
    const [bare, ours]: number[][] = [[], []];
    for (let n = 0; n < WAKES; n += 1) {
      await container.pause();
      bare?.push(await timed(() => container.unpause().then(() => engine.run([HELPER, 'true']))));
      await this.service.call('POST', `/api/agents/${this.agentId}/sleep`, undefined, { prefer: 'wait=20' });
      ours?.push(await timed(() => this.command(this.agentId)));
    }
    return compared(bare ?? [], ours ?? []);
  }

  /** Returns the commands a second that eight callers run in one agent. */
  async callers(): Promise<object> {
    const bare = await commandsASecond(() => this.engine.run([HELPER, 'true']));
    const mooring = await commandsASecond(() => this.command(this.agentId));
    return { bare, mooring, ratio: rounded(mooring / bare) };
  }

  /** Returns the memory that the supervisors of an idle agent have for themselves, in MB. */
  async idleMemory(): Promise<object> {
    const { Processes } = await this.engine.container.top({ ps_args: '-eo pid,args' });
    const own = (Processes as string[][]).filter(([, args]) => args?.startsWith('/.mooring/supervisor'));
    const memory = (word: string) => {
      const pids = own.filter(([, args]) => args?.includes(word) === true).map(([pid]) => pid ?? '');
      return rounded(pids.reduce((sum, pid) => sum + privateKb(pid), 0) / 1_024);
    };
    return { first_process: memory('supervisor init'), attached: memory('supervisor attach') };
  }

  private async agent(): Promise<[string, EngineExec]> {
    const made = await this.service.call('POST', '/api/agents', { name: 'exec', templateId: 'hello' }, { prefer: 'wait=100' });
    if (made.body.status !== 'active') throw new Error(JSON.stringify(made.body));
    const agentId = made.body.agent_id as string;
    const [seen] = await seenContainers(agentId);
    return [agentId, new EngineExec(this.docker.getContainer(seen?.id ?? ''))];
  }

  private async bareContainer(): Promise<Dockerode.Container> {
    const { Image, Mounts } = await this.engine.container.inspect();
    const helper = Mounts.find(({ Destination }) => HELPER.startsWith(`${Destination}/`))?.Name ?? '';
    this.bare = await this.docker.createContainer({
      Image,
      Entrypoint: [HELPER, 'sleep', '3600'],
      HostConfig: { NetworkMode: 'none', Mounts: [{ Type: 'volume', Source: helper, Target: '/.mooring', ReadOnly: true }] },
    });
    await this.bare.start();
    await until('it runs', async () => ((await this.bare?.inspect())?.State.Running === true ? true : undefined));
    return this.bare;
  }

  private async command(agentId: string): Promise<void> {
    const { status, body } = await this.service.call('POST', `/api/agents/${agentId}/exec`, { command: ['true'] });
    if (status !== 200 || body.exitCode !== 0) throw new Error(`exec answered ${status} ${JSON.stringify(body)}`);
  }

  private async put(agentId: string, path: string): Promise<void> {
    const { status } = await this.service.call('PUT', `/api/agents/${agentId}/files/write`, { path, content: SMALL });
    if (status !== 200) throw new Error(`write answered ${status}`);
  }

  private async download(): Promise<void> {
    const { url, api_key: key } = this.service.firstRun;
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${url}/api/agents/${this.agentId}/files/download?path=small`, { headers });
    const { byteLength } = await response.arrayBuffer();
    if (byteLength !== SMALL.length) throw new Error(`download answered ${response.status}`);
  }
}

function privateKb(pid: string): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].reduce((sum, [, kb]) => sum + Number(kb), 0);
}

async function commandsASecond(command: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  let count = 0;
  const caller = async () => {
    for (; performance.now() - began < CALLERS_MS; count += 1) await command();
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return rounded((count * 1_000) / (performance.now() - began));
}

async function inTurns(bareWork: () => Promise<unknown>, ourWork: () => Promise<unknown>): Promise<object> {
  const bare: number[] = [];
  const ours: number[] = [];
  for (let round = -WARM_ROUNDS; round < ROUNDS; round += 1) {
    const [one, other] = [await timed(bareWork), await timed(ourWork)];
    if (round < 0) continue;
    bare.push(one);
    ours.push(other);
  }
  return compared(bare, ours);
}

function compared(bare: readonly number[], ours: readonly number[]): object {
  const [one, other] = [summary(bare), summary(ours)];
  const least = percentile(ours, 0);
  return { bare: one.p50, mooring: other.p50, mooring_p95: other.p95, mooring_least: least, ratio: rounded(other.p50 / one.p50, 3) };
}
