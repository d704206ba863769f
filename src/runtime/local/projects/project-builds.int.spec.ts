import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { rootCertificates } from 'node:tls';
import type { BuildSettings, ProjectPlan } from '../../project-plan.ts';
import type { ImageSource } from '../../image-source.ts';
import { LocalRuntime } from '../local-runtime.ts';
import { liveness, markOf } from '../processes.ts';
import { containerSpec } from '../../../../test/support/container-spec.ts';
import { untilTrue } from '../../../../test/support/until.ts';

describe('a build of a project on the local runtime', () => {
  let folder: string;
  let dataDir: string;
  let runtime: LocalRuntime;
  const instance = randomUUID().slice(-12);

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-builds-'));
    dataDir = join(folder, 'data');
    runtime = await LocalRuntime.open({ instance, dataDir });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const settings: BuildSettings = { variables: {}, caFile: null };
  const never = new AbortController().signal;
  const builds = () => (existsSync(join(dataDir, 'local/builds')) ? readdirSync(join(dataDir, 'local/builds')) : []);

  /** Returns a project of which each build runs the script. */
  function project(
    script: string,
    other: Partial<ProjectPlan> = {},
    files: Record<string, string> = {},
  ): ImageSource & { kind: 'project' } {
    const directory = join(folder, randomUUID());
    for (const [name, content] of Object.entries({ ...files, 'build.mjs': script })) {
      mkdirSync(join(directory, name, '..'), { recursive: true });
      writeFileSync(join(directory, name), content);
    }
    const plan: ProjectPlan = {
      found: 'a Node project',
      framework: null,
      language: 'node',
      manifests: [],
      install: [],
      build: [['node', 'build.mjs']],
      start: ['node', 'build.mjs'],
      env: {},
      ...other,
    };
    return { kind: 'project', directory, plan, settings };
  }

  async function logOf(source: ImageSource): Promise<string> {
    const lines: string[] = [];
    await runtime.ensureImage(source, (line) => lines.push(line), never);
    return lines.join('\n');
  }

  /** Tells its own process and that of a child in the file, and goes on for ever. */
  const endless = (file: string) => `
    import { spawn } from 'node:child_process';
    import { renameSync, writeFileSync } from 'node:fs';
    const child = spawn(process.execPath, ['-e', 'setInterval(() => 0, 1000)'], { stdio: 'ignore' });
    writeFileSync(${JSON.stringify(`${file}.new`)}, JSON.stringify([process.pid, child.pid]));
    renameSync(${JSON.stringify(`${file}.new`)}, ${JSON.stringify(file)});
    setInterval(() => 0, 1000);
  `;
  const processesIn = (file: string) => (JSON.parse(readFileSync(file, 'utf8')) as number[]).map(markOf);

  it('ends with its processes when it is canceled, and leaves nothing behind', async () => {
    const told = join(folder, 'told');
    const cancel = new AbortController();
    const building = runtime.ensureImage(project(endless(told)), () => undefined, cancel.signal);
    building.catch(() => undefined);
    await untilTrue(async () => existsSync(told));
    const processes = processesIn(told);
    expect(processes.map(liveness)).toEqual(['running', 'running']);
    cancel.abort(new Error('canceled'));
    await expect(building).rejects.toThrow('canceled');
    await untilTrue(async () => processes.every((mark) => liveness(mark) === 'gone'));
    expect(builds()).toEqual([]);
    expect(readdirSync(join(dataDir, 'local/images'))).toEqual([]);
  });

  it('ends with its processes when the service is killed, and the next start removes its leftovers', async () => {
    const told = join(folder, 'told');
    const script = `
      import { LocalRuntime } from ${JSON.stringify(new URL('../local-runtime.ts', import.meta.url).href)};
      const runtime = await LocalRuntime.open(${JSON.stringify({ instance, dataDir })});
      await runtime.ensureImage(${JSON.stringify(project(endless(told)))}, () => undefined, new AbortController().signal);
    `;
    const loader = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
    const service = spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', script], { stdio: 'ignore' });
    await untilTrue(async () => existsSync(told));
    const processes = processesIn(told);
    // The build of a service that lives is left alone.
    await LocalRuntime.open({ instance, dataDir });
    expect(processes.map(liveness)).toEqual(['running', 'running']);
    expect(builds()).toHaveLength(2);
    service.kill('SIGKILL');
    await once(service, 'exit');
    await untilTrue(async () => processes.every((mark) => liveness(mark) === 'gone'));
    await LocalRuntime.open({ instance, dataDir });
    expect(builds()).toEqual([]);
  });

  it('is aborted when it exceeds its disk limit', async () => {
    const small = await LocalRuntime.open({ instance, dataDir, projectBytesMax: 1024 ** 2 });
    const source = project(`import { writeFileSync } from 'node:fs'; writeFileSync('large', Buffer.alloc(3_000_000, 'x'));`);
    await expect(small.ensureImage(source, () => undefined, never)).rejects.toThrow('The build takes more than 1 MiB of disk.');
    expect(builds()).toEqual([]);
  });

  it('logs a bounded part of its commands’ output, and still reports their last line', async () => {
    const source = project(`
      for (let line = 0; line < 12_000; line += 1) console.log('y'.repeat(999));
      console.log('the end');
      process.exitCode = 1;
    `);
    let bytes = 0;
    const count = (line: string) => {
      bytes += line.length;
    };
    await expect(runtime.ensureImage(source, count, never)).rejects.toThrow('node build.mjs failed with exit code 1: the end');
    expect(bytes).toBeGreaterThan(4_000_000);
    expect(bytes).toBeLessThan(4_300_000);
  });

  it('has its own home and none of the service’s variables', async () => {
    process.env.MOORING_PLANTED = 'planted-canary';
    try {
      const log = await logOf(project('console.log(JSON.stringify(process.env))'));
      expect(log).not.toContain('planted-canary');
      expect(log).toContain(`"HOME":"${join(dataDir, 'local/builds')}`);
    } finally {
      delete process.env.MOORING_PLANTED;
    }
  });

  it('trusts the operator’s certificates beside the usual ones', async () => {
    const caFile = join(folder, 'ca.pem');
    writeFileSync(caFile, 'the operator’s own\n');
    const script = `
      import { readFileSync } from 'node:fs';
      for (const name of ['SSL_CERT_FILE', 'npm_config_cafile', 'PIP_CERT']) {
        const text = readFileSync(process.env[name], 'utf8');
        console.log(name, text.split('BEGIN CERTIFICATE').length - 1, text.includes('the operator’s own'));
      }
    `;
    const log = await logOf({ ...project(script), settings: { variables: {}, caFile } });
    for (const name of ['SSL_CERT_FILE', 'npm_config_cafile', 'PIP_CERT']) expect(log).toContain(`${name} ${rootCertificates.length} true`);
  });

  it('reports which command is missing', async () => {
    await expect(runtime.ensureImage(project('', { install: [['no-such-manager', 'install']] }), () => undefined, never)).rejects.toThrow(
      'no-such-manager install failed with exit code 127: no-such-manager: command not found',
    );
  });

  it('gives each deployment its own packages', async () => {
    const source = project('', {}, { 'node_modules/rope/index.js': 'rope', 'boat.txt': 'boat' });
    const { image } = await runtime.ensureImage(source, () => undefined, never);
    const agentId = randomUUID();
    const made = await Promise.all(
      [1, 2].map(async (generation) => {
        const { handle } = await runtime.create(containerSpec(image, { agentId, generation }));
        return join(dataDir, 'local', instance, 'containers', handle, 'root/app');
      }),
    );
    const [first = '', second = ''] = made;
    rmSync(join(first, 'node_modules/rope/index.js'));
    writeFileSync(join(first, 'boat.txt'), 'sunk');
    expect(readFileSync(join(second, 'node_modules/rope/index.js'), 'utf8')).toBe('rope');
    expect(readFileSync(join(second, 'boat.txt'), 'utf8')).toBe('boat');
  });
});
