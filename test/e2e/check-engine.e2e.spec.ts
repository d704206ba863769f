import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import Dockerode from 'dockerode';

import { until } from '../support/until.ts';

const root = resolve(import.meta.dirname, '../..');
const docker = new Dockerode();
/** The environment without the variables that the test runner sets. */
const outside = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('MOORING_')));

/** A walk over an engine, as its operator runs it. */
class StartedWalk {
  output = '';
  private readonly ended: Promise<unknown>;

  constructor(
    private readonly child: ChildProcess,
    readonly isOver = () => child.exitCode !== null,
  ) {
    this.ended = once(child, 'close');
    child.stdout?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
  }

  static begin(parts: string[], environment: Record<string, string> = {}): StartedWalk {
    const words = ['--import', './scripts/typescript.mjs', 'scripts/check-engine.ts', ...parts];
    const child = spawn(process.execPath, words, { cwd: root, env: { ...outside, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
    return new StartedWalk(child);
  }

  async status(): Promise<number | null> {
    await this.ended;
    return this.child.exitCode;
  }

  interrupt(): void {
    this.child.kill('SIGINT');
  }

  /** Returns the names of everything on the engine that belongs to the walk. */
  async left(): Promise<string[]> {
    const [, instance = '', suffix = ''] = /mooring-([0-9a-f]{12}), mooring-check-([0-9a-f]{8})/.exec(this.output) ?? [];
    expect([instance, suffix]).not.toContain('');
    const found: string[] = [];
    for (const label of [`mooring.instance=${instance}`, `mooring-check=${suffix}`]) {
      const filters = { label: [label] };
      found.push(...(await docker.listContainers({ all: true, filters })).map(({ Names }) => Names.join()));
      found.push(...((await docker.listVolumes({ filters })).Volumes ?? []).map(({ Name }) => Name));
      found.push(...(await docker.listNetworks({ filters })).map(({ Name }) => Name));
    }
    const names = (await docker.listImages()).flatMap(({ RepoTags }) => RepoTags ?? []);
    return [...found, ...names.filter((name) => name.includes(instance) || name.includes(suffix))];
  }

  /** Removes the log of a failed walk. Returns its text. */
  async log(): Promise<string> {
    const file = /The log of the service: (\S+)/.exec(this.output)?.[1] ?? '';
    const text = await readFile(file, 'utf8');
    await rm(file);
    return text;
  }
}

describe('a walk over the engine', () => {
  it('prints which checks pass, and leaves nothing on the engine', async () => {
    const walk = StartedWalk.begin(['limits']);
    expect([await walk.status(), walk.output]).toEqual([0, expect.stringMatching(/, 0 failed, 0 not tried, in \d+ s\n$/)]);
    expect(walk.output).toMatch(/holds .+ a process that takes more memory than its agent has is killed/);
    expect(await walk.left()).toEqual([]);
  });

  it('that is interrupted leaves nothing on the engine either, and does not pass', async () => {
    const walk = StartedWalk.begin(['limits']);
    await until('the first step is over', () => {
      if (walk.isOver()) throw new Error(walk.output);
      return /holds .+ an agent with limits runs/.test(walk.output) ? true : undefined;
    });
    walk.interrupt();
    expect([await walk.status(), walk.output]).toEqual([1, expect.stringContaining('the walk was ended')]);
    expect(await walk.left()).toEqual([]);
    expect(await walk.log()).not.toMatch(/mk_\w{10}|password {2}/);
  });

  it('ends with a sentence if no engine answers', async () => {
    const walk = StartedWalk.begin([], { DOCKER_HOST: 'unix:///nowhere/engine.sock' });
    expect([await walk.status(), walk.output]).toEqual([1, expect.stringContaining('No engine answers at unix:///nowhere/engine.sock')]);
  });
});
