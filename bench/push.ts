import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import Dockerode from 'dockerode';

import { builderImage } from '../test/support/builder-image.ts';
import { GitServer } from '../test/support/git-server.ts';
import { importNodeImage } from '../test/support/images.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { machineLoad, percentile, rounded, timed } from './support/figures.ts';
import { nodeOptions } from './support/node-options.ts';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 12);
const WARM_UP_ROUNDS = 2;
const READY_MS = 30_000;
const LOOK_EVERY_MS = 5;
const execute = promisify(execFile);

const docker = (words: string[], env = process.env) => execute('docker', words, { env });

/**
 * Measures the time (in ms) from a push of a one-line change to the new version `active`, against `docker build`, `docker rm` of the old
 * container and `docker run` of the same folder by hand; and a rollback against a start of the stopped agent, and against `docker rm` and
 * `docker run` of the image by hand. All in turn in one run, with Docker's own program as a person uses it.
 */
export async function run(): Promise<object> {
  const engine = new Dockerode();
  const base = await importNodeImage(engine, `mooring-bench-${randomBytes(6).toString('hex')}:1`);
  const git = await GitServer.start();
  const environment = {
    MOORING_ALLOW_PRIVATE_SOURCES: git.host,
    MOORING_SHARED_IMAGES: base,
    MOORING_BUILDER_IMAGE: await builderImage(),
    MOORING_LOG_LEVEL: 'warn',
    ...(process.env.BENCH_BUILDER === undefined ? {} : { MOORING_BUILDER: process.env.BENCH_BUILDER }),
  };
  const service = await StartedService.start({ runtime: 'docker', environment, nodeOptions });
  const byHand = await ByHand.open(base);
  try {
    const figures = await new PushBench(service, git, byHand, base).measure();
    console.table(figures);
    return { ...figures, load: machineLoad() };
  } finally {
    await byHand.close();
    await service.dispose();
    await git.close();
    await engine.getImage(base).remove();
  }
}

/** Returns the files of the project. Two versions have no layer with the program in common, so that neither build finds that of the other. */
function project(base: string, version: string): Record<string, string> {
  return {
    Dockerfile: [
      `FROM ${base}`,
      'WORKDIR /app',
      'COPY dependencies.json /app/',
      // This stands for installing dependencies, which a change of the program does not repeat.
      `RUN ["node", "-e", "require('node:fs').writeFileSync('/app/installed', 'x'.repeat(1e7))"]`,
      'COPY agent.js /app/',
      'CMD ["node", "/app/agent.js"]',
      '',
    ].join('\n'),
    'dependencies.json': '{}',
    'agent.js': `const version = '${version}';\nrequire('node:http').createServer((_, response) => response.end(version)).listen(process.env.PORT);\n`,
  };
}

class PushBench {
  private agentId = '';
  private version = 0;

  constructor(
    private readonly service: StartedService,
    private readonly git: GitServer,
    private readonly byHand: ByHand,
    private readonly base: string,
  ) {}

  async measure(): Promise<object> {
    this.push();
    this.agentId = (await this.done('POST', '/api/v1/provision', { name: 'bench', repo_url: this.git.url('bench') })).agent_id;
    const times = { push: [[], []], rollback: [[], []], start: [[], []] } as Record<string, [number[], number[]]>;
    for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
      const pairs = await this.round();
      for (const [name, pair] of Object.entries(pairs)) if (round >= 0) pair.forEach((ms, side) => times[name]?.[side]?.push(ms));
    }
    return Object.fromEntries(Object.entries(times).map(([name, [bare, ours]]) => [name, compared(bare, ours)]));
  }

  /** Returns the time of the engine alone, or of a plain start, and the time of the service, for each kind. */
  private async round(): Promise<Record<string, [number, number]>> {
    this.version += 1;
    const files = project(this.base, `${this.version} by hand`);
    await this.byHand.write(files);
    const built = await timed(() => this.byHand.deploy());
    this.push();
    const pushed = await timed(() => this.done('POST', `/api/v1/agents/${this.agentId}/deploy`));
    const ran = await timed(() => this.byHand.replace());
    const rolledBack = await timed(() => this.done('POST', `/api/v1/agents/${this.agentId}/rollback`));
    await this.done('POST', `/api/v1/agents/${this.agentId}/stop`, undefined, 'stopped');
    const started = await timed(() => this.done('POST', `/api/v1/agents/${this.agentId}/start`));
    return { push: [built, pushed], rollback: [ran, rolledBack], start: [started, rolledBack] };
  }

  private push(): void {
    this.git.commit('bench', project(this.base, `${this.version}`));
  }

  private async done(method: string, path: string, body?: object, wanted = 'active') {
    const answer = await this.service.call(method, path, body, { prefer: 'wait=60' });
    if (answer.body.status !== wanted) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}

/** The same project, built and run by Docker's own program in a folder. */
class ByHand {
  private readonly name = `mooring-bench-${randomBytes(6).toString('hex')}`;
  private readonly images: string[] = [];

  private constructor(private readonly folder: string) {}

  static async open(base: string): Promise<ByHand> {
    const byHand = new ByHand(await mkdtemp(join(tmpdir(), 'mooring-bench-')));
    await byHand.write(project(base, 'first by hand'));
    await byHand.deploy();
    return byHand;
  }

  async write(files: Record<string, string>): Promise<void> {
    for (const [name, text] of Object.entries(files)) await writeFile(join(this.folder, name), text);
  }

  async deploy(): Promise<void> {
    const environment = { ...process.env, DOCKER_BUILDKIT: '0' };
    const { stdout } = await docker(['build', '--quiet', '--tag', this.name, this.folder], environment);
    this.images.push(stdout.trim());
    await this.replace();
  }

  /** Replaces the container by one of the image, and waits until it answers. */
  async replace(): Promise<void> {
    await docker(['rm', '--force', '--volumes', this.name]).catch(() => undefined);
    const settings = ['--detach', '--init', '--name', this.name, '--env', 'PORT=8080', '--volume', '/data'];
    await docker(['run', ...settings, this.name]);
    const { stdout } = await docker(['inspect', '--format', '{{.NetworkSettings.IPAddress}}', this.name]);
    await until('it is ready', () => answers(stdout.trim()), { timeoutMs: READY_MS, everyMs: LOOK_EVERY_MS });
  }

  async close(): Promise<void> {
    await docker(['rm', '--force', '--volumes', this.name]).catch(() => undefined);
    await docker(['rmi', '--force', ...this.images]).catch(() => undefined);
    await rm(this.folder, { recursive: true, force: true });
  }
}

function answers(host: string): Promise<true | undefined> {
  return new Promise((resolve) => {
    const call = request({ host, port: 8080, path: '/healthz', timeout: 1_000 }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200 ? true : undefined);
    });
    call.on('error', () => resolve(undefined)).end();
  });
}

function compared(bare: readonly number[], ours: readonly number[]): object {
  const ratios = ours.map((ms, round) => ms / (bare[round] ?? NaN));
  return { bare: percentile(bare, 0.5), mooring: percentile(ours, 0.5), ratio: rounded(percentile(ratios, 0.5)) };
}
