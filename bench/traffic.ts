import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import Dockerode from 'dockerode';

import { seenContainers } from '../test/support/engine.ts';
import { StartedService } from '../test/support/started-service.ts';
import { machineLoad, memoryMb, percentile, rounded } from './support/figures.ts';
import { rateOf, type Rate, type Target } from './support/rate.ts';

const CALLERS = 16;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 8);
const SLICE_MS = 2_000;
const PATH = '/healthz';
const aims = { ratio: 0.5 };

/** Measures requests per second to a public agent's port through the service against `http-proxy` in front of the same agent, in turns. */
export async function run(): Promise<object> {
  const service = await StartedService.start({ runtime: 'docker', environment: { MOORING_LOG_LEVEL: 'warn' } });
  try {
    const made = await service.call('POST', '/api/agents', { name: 'traffic', templateId: 'hello' }, { prefer: 'wait=100' });
    const agentId = made.body.agent_id as string;
    await service.call('PATCH', `/api/v1/agents/${agentId}`, { public: true });
    const bare = await BareProxy.start(await addressOf(agentId));
    const ours: Target = { url: `${service.firstRun.url}/a/${agentId}`, pid: service.pid, headers: {} };
    const figures = await inTurns(ours, bare.target).finally(() => bare.stop());
    await service.call('DELETE', `/api/v1/agents/${agentId}`);
    console.table(figures);
    return { aims, ...figures, most_mb: memoryMb(service.pid).peak, load: machineLoad() };
  } finally {
    await service.dispose();
  }
}

type Figures = Pick<Rate, 'perSecond' | 'cpuMs' | 'machineMs'>;

async function inTurns(ours: Target, bare: Target): Promise<{ mooring: Figures; http_proxy: Figures; ratio: number }> {
  const rate = (target: Target) => rateOf(target, CALLERS, SLICE_MS, () => ['GET', PATH]);
  await Promise.all([rate(ours), rate(bare)]);
  const rounds: { mooring: Rate; http_proxy: Rate }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push({ http_proxy: await rate(bare), mooring: await rate(ours) });
  const median = (of: (round: (typeof rounds)[number]) => Rate): Figures => {
    const figure = (name: keyof Rate) =>
      percentile(
        rounds.map((round) => of(round)[name]),
        0.5,
      );
    return { perSecond: figure('perSecond'), cpuMs: figure('cpuMs'), machineMs: figure('machineMs') };
  };
  const ratios = rounds.map(({ mooring, http_proxy }) => mooring.perSecond / http_proxy.perSecond);
  return {
    mooring: median((round) => round.mooring),
    http_proxy: median((round) => round.http_proxy),
    ratio: rounded(percentile(ratios, 0.5)),
  };
}

async function addressOf(agentId: string): Promise<string> {
  const [seen] = await seenContainers(agentId);
  const { NetworkSettings } = await new Dockerode().getContainer(seen?.id ?? '').inspect();
  const host = Object.values(NetworkSettings.Networks).find(({ IPAddress }) => IPAddress !== '')?.IPAddress;
  return `http://${host}:8080`;
}

/** The bare proxy in its own process. */
class BareProxy {
  private constructor(
    private readonly child: ChildProcess,
    readonly target: Target,
  ) {}

  static async start(agent: string): Promise<BareProxy> {
    const program = join(import.meta.dirname, 'support', 'bare-proxy.ts');
    const child = spawn(process.execPath, ['--import', './scripts/typescript.mjs', program], {
      env: { ...process.env, BENCH_TARGET: agent },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const url = /http:\/\/\S+/.exec(line.toString())?.[0] ?? '';
    return new BareProxy(child, { url, pid: child.pid ?? -1, headers: {} });
  }

  stop(): void {
    this.child.kill('SIGKILL');
  }
}
