import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { untilTrue } from '../../../../test/support/until.ts';
import type { BuildSettings, ProjectPlan } from '../../project-plan.ts';
import { labels, networkName } from '../engine/names.ts';

const canary = `canary-${randomUUID()}`;
const node: ProjectPlan = {
  found: 'a Node project (package.json)',
  framework: null,
  language: 'node',
  manifests: ['package.json', 'own/package.json'],
  install: [['npm', 'install', '--no-audit', '--no-fund']],
  build: [],
  start: ['node', 'main.js'],
  env: { NODE_ENV: 'production', WORDS: `a "b" $C \\d` },
};
const python: ProjectPlan = {
  ...node,
  language: 'python',
  manifests: ['requirements.txt'],
  install: [
    ['python3', '-m', 'venv', '.venv'],
    ['pip', 'install', '--no-index', '-r', 'requirements.txt'],
  ],
  start: ['python', 'main.py'],
};
const nodeFiles = {
  'package.json': JSON.stringify({ dependencies: { own: 'file:own' }, scripts: { build: 'node build.js' } }),
  'own/package.json': JSON.stringify({ name: 'own', version: '1.0.0', main: 'own.js' }),
  'own/own.js': 'module.exports = "own"',
  'main.js': 'console.log(require("own"), process.env.WORDS, String(process.getuid()))',
};

describe('a project without a Dockerfile on Docker', () => {
  let bed: DockerFixture;
  let folder: string;
  let lines: string[];

  beforeAll(async () => {
    bed = await DockerFixture.open();
  });
  afterAll(() => bed?.close());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-project-'));
    lines = [];
  });
  afterEach(() => rm(folder, { recursive: true }));

  const put = async (files: Record<string, string>) => {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), content);
    }
  };
  const built = (plan: ProjectPlan, settings: Partial<BuildSettings> = {}, signal = new AbortController().signal) => {
    const source = { kind: 'project' as const, directory: folder, plan, settings: { variables: {}, caFile: null, ...settings } };
    return bed.runtime.ensureImage(source, (line) => lines.push(line), signal);
  };
  const output = async (name: string) => {
    const container = await bed.docker.createContainer({ Image: name, Tty: true });
    await container.start();
    await container.wait();
    const text = await container.logs({ stdout: true, stderr: true });
    await container.remove();
    return text.toString().trim();
  };
  const images = () => bed.docker.listImages({ filters: { label: [`${labels.instance}=${bed.instance}`] } });
  const containers = () => bed.docker.listContainers({ all: true, filters: { label: [`${labels.instance}=${bed.instance}`] } });

  it('is installed and started without rights, and a change of one file does not install its packages again', async () => {
    await put(nodeFiles);
    const first = await built(node);
    expect(await output(first.image)).toBe('own a "b" $C \\d 10001');
    expect(lines).toContain('Running npm install --no-audit --no-fund');

    await put({ 'main.js': 'console.log("changed", require("own"))' });
    lines = [];
    expect(await output((await built(node)).image)).toBe('changed own');
    expect(lines).toContainEqual(expect.stringContaining('Using cache: the packages were installed before'));
    expect(lines.join('\n')).not.toContain('npm install');

    lines = [];
    await built(node);
    expect(lines).toContainEqual(expect.stringContaining('Using cache: nothing has changed'));
  });

  it('in Python has a virtual environment of its own', async () => {
    await put({
      'requirements.txt': './own\n',
      'own/pyproject.toml': '[project]\nname = "own"\nversion = "1"\n',
      'main.py': 'import sys, ssl, sqlite3; print(sys.prefix)',
    });
    const plan = {
      ...python,
      install: [
        ['python3', '-m', 'venv', '.venv'],
        ['pip', '--version'],
      ],
    };
    expect(await output((await built(plan)).image)).toBe('/app/.venv');
    expect(lines).toContainEqual(expect.stringContaining('(python 3.'));
  });

  it('is built with the operator’s settings and the agent’s secrets, of which nothing stays in any image', async () => {
    const caFile = join(folder, 'ca.pem');
    await writeFile(caFile, `# ${canary}-certificate\n`);
    await mkdir(join(folder, 'project'));
    folder = join(folder, 'project');
    await put({
      ...nodeFiles,
      'build.js': `
        const { readFileSync, writeFileSync } = require('node:fs');
        const seen = [process.env.MIRROR_TOKEN, process.env.AGENT_TOKEN, readFileSync(process.env.NODE_EXTRA_CA_CERTS, 'utf8'), readFileSync(process.env.PIP_CERT, 'utf8')];
        writeFileSync('seen.json', JSON.stringify(seen.map((text) => text.includes('canary'))));
        writeFileSync('/tmp/left', process.env.MIRROR_TOKEN);
      `,
      'main.js': 'console.log(require("node:fs").readFileSync("seen.json", "utf8"), String(require("node:fs").readdirSync("/tmp").length))',
    });
    const plan = { ...node, build: [['npm', 'run', 'build']] };
    const { image } = await built(plan, {
      variables: { MIRROR_TOKEN: canary, NPM_CONFIG_REGISTRY: `https://u:${canary}@localhost/` },
      secrets: { AGENT_TOKEN: canary },
      caFile,
    });
    expect(await output(image)).toBe('[true,true,true,true] 0');
    const ours = await bed.docker.listImages({ all: true, filters: { label: [`${labels.instance}=${bed.instance}`] } });
    expect(ours.map(({ Id }) => Id)).toContain(image);
    for (const { Id } of ours) {
      expect(JSON.stringify([await bed.docker.getImage(Id).inspect(), await bed.docker.getImage(Id).history()])).not.toContain('canary');
    }
    let rest = '';
    for await (const chunk of await bed.docker.getImage(image).get()) {
      const text = rest + (chunk as Buffer).toString('latin1');
      expect(text.includes(canary)).toBe(false);
      rest = text.slice(-canary.length);
    }
    folder = dirname(folder);
  });

  it('that can’t be built fails with the command and its last line', async () => {
    await put({ ...nodeFiles, 'build.js': 'console.error("no such module"); process.exit(3)' });
    const plan = { ...node, build: [['node', 'build.js']] };
    await expect(built(plan)).rejects.toThrow('node build.js failed with exit code 3: no such module');
    await untilTrue(async () => (await containers()).length === 0);
    expect((await images()).filter(({ RepoTags }) => (RepoTags ?? ['<none>:<none>']).includes('<none>:<none>'))).toEqual([]);
  });

  it('whose build is aborted ran on a network that no agent is on, and leaves no container', async () => {
    await put({ ...nodeFiles, 'build.js': 'console.log("building"); setInterval(() => {}, 1000)' });
    const abort = new AbortController();
    const failure = built({ ...node, build: [['node', 'build.js']] }, {}, abort.signal).catch((error: Error) => error.message);
    await untilTrue(() => lines.includes('building'));
    const [building] = await containers();
    const { HostConfig } = await bed.docker.getContainer(building?.Id ?? '').inspect();
    expect(HostConfig).toMatchObject({ NetworkMode: networkName(bed.instance, 'builds'), CapDrop: ['ALL'], PidsLimit: 1_024 });
    abort.abort(new Error('canceled'));
    expect(await failure).toBe('canceled');
    await untilTrue(async () => (await containers()).length === 0);
  });
});
