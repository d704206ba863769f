import { randomUUID } from 'node:crypto';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { eventually, say, RuntimeFixture, type RuntimeUnderTest } from './runtime.fixture.contract.ts';
import type { BuildSettings, ProjectPlan } from '../../src/runtime/project-plan.ts';
import type { ResolvedImage } from '../../src/runtime/image-source.ts';
import type { ContainerSpec } from '../../src/runtime/container.ts';
import { RuntimeRefused, ShellCommand } from '../../src/runtime/runtime.errors.ts';

const noSettings: BuildSettings = { variables: {}, caFile: null };

/** A project that needs no registry: its only dependency is a local folder. */
const nodeFiles = {
  'package.json': JSON.stringify({ name: 'boat', version: '1.0.0', dependencies: { rope: 'file:./rope' } }),
  'rope/package.json': JSON.stringify({ name: 'rope', version: '1.0.0', main: 'index.cjs' }),
  'rope/index.cjs': 'module.exports = { knot: () => "bowline" };',
  'build.mjs': `import rope from 'rope';
import { writeFileSync } from 'node:fs';
writeFileSync('built.txt', rope.knot() + ' ' + process.env.FLAVOR);`,
  'server.mjs': `import rope from 'rope';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
const built = readFileSync(new URL('./built.txt', import.meta.url), 'utf8');
createServer((request, response) => response.end(JSON.stringify({ knot: rope.knot(), built, flavor: process.env.FLAVOR })))
  .listen(Number(process.env.PORT), process.env.HOST ?? '0.0.0.0');`,
};
const nodePlan: ProjectPlan = {
  found: 'a Node project (package.json)',
  framework: null,
  language: 'node',
  manifests: ['package.json', 'rope/package.json'],
  install: [['npm', 'install', '--offline', '--no-audit', '--no-fund']],
  build: [['node', 'build.mjs']],
  start: ['node', 'server.mjs'],
  env: { FLAVOR: 'salty' },
};

/** Its only dependency is a local folder, which provides a command. pip needs neither a registry nor a build backend for it. */
const pythonFiles = {
  'requirements.txt': '--no-index\n./rope\n',
  'rope/pyproject.toml': '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
  'rope/backend.py': `import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = 'rope-1.0-py3-none-any.whl'
    files = {
        'rope.py': 'def knot():\\n    return "bowline"\\n\\ndef main():\\n    print(knot())\\n',
        'rope-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: rope\\nVersion: 1.0\\n',
        'rope-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nGenerator: backend\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
        'rope-1.0.dist-info/entry_points.txt': '[console_scripts]\\ntie = rope:main\\n',
    }
    with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr('rope-1.0.dist-info/RECORD', '')
    return name
`,
  'main.py': `import json, os, subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
import rope
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        command = subprocess.run(['tie'], capture_output=True, text=True).stdout.strip()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({'knot': rope.knot(), 'command': command, 'flavor': os.environ['FLAVOR']}).encode())
HTTPServer((os.environ.get('HOST', '0.0.0.0'), int(os.environ['PORT'])), Handler).serve_forever()
`,
};
const pythonPlan: ProjectPlan = {
  found: 'a Python project (requirements.txt)',
  framework: null,
  language: 'python',
  manifests: ['requirements.txt', 'rope/pyproject.toml', 'rope/backend.py'],
  install: [
    ['python3', '-m', 'venv', '.venv'],
    ['pip', 'install', '-r', 'requirements.txt'],
  ],
  build: [],
  start: ['python', 'main.py'],
  env: { FLAVOR: 'salty' },
};

/** Declares the tests of projects without a Dockerfile, which every runtime must pass. */
export function projectContract(name: string, make: () => Promise<RuntimeUnderTest>): void {
  describe(`projects without a Dockerfile on the ${name} runtime`, () => {
    const bed = new RuntimeFixture(make);
    beforeAll(() => bed.open());
    afterAll(() => bed.close());
    projects(bed);
  });
}

/** Declares the test of a Python project, which needs a machine with Python or an engine. */
export function pythonProjectContract(name: string, make: () => Promise<RuntimeUnderTest>): void {
  describe(`a Python project without a Dockerfile on the ${name} runtime`, () => {
    const bed = new RuntimeFixture(make);
    const { build, answerOf } = projectsOn(bed);
    beforeAll(() => bed.open());
    afterAll(() => bed.close());

    it('runs a Python project with the modules and the commands that it installed', async () => {
      const { image } = await build(pythonFiles, pythonPlan);
      const { view, answer } = await answerOf(image);
      expect(answer).toEqual({ knot: 'bowline', command: 'bowline', flavor: 'salty' });
      const { stdout } = await bed.runtime.exec(view.handle, { argv: ['tie'], timeoutMs: 20_000, outputLimitBytes: 1_000 });
      expect(stdout.toString().trim()).toBe('bowline');
      await bed.runtime.remove(view.handle);
    });
  });
}

/** Returns functions that build projects on the bed, and that start and query them. */
function projectsOn(bed: RuntimeFixture) {
  const build = async (files: Record<string, string>, plan: ProjectPlan, settings = noSettings, signal = timeoutSignal(300_000)) => {
    const { directory } = bed.under.program(files, ['unused']) as { directory: string };
    const lines: string[] = [];
    const image = await bed.runtime
      .ensureImage({ kind: 'project', directory, plan, settings }, (line) => lines.push(line), signal)
      .catch((error: unknown) => Promise.reject(Object.assign(error as Error, { lines })));
    return { image, lines };
  };
  const answerOf = async ({ image }: ResolvedImage, other: Partial<ContainerSpec> = {}) => {
    const view = await bed.created({}, { image, ...other });
    await bed.start(view);
    const answer = await eventually(() => bed.ask(view, 'GET', '/'));
    return { view, answer: JSON.parse(answer.text) as Record<string, string> };
  };
  return { build, answerOf };
}

function projects(bed: RuntimeFixture): void {
  const { build, answerOf } = projectsOn(bed);

  it('runs a Node project with its installed packages and build output', async () => {
    const { image, lines } = await build(nodeFiles, nodePlan);
    const { view, answer } = await answerOf(image);
    expect(answer).toEqual({ knot: 'bowline', built: 'bowline salty', flavor: 'salty' });
    expect(image.command).toEqual(nodePlan.start);
    expect(lines.join('\n')).toContain('npm install --offline');
    await bed.runtime.remove(view.handle);
  });

  it('does not rebuild an unchanged project, and finds it as an earlier image', async () => {
    const first = await build(nodeFiles, nodePlan);
    const second = await build(nodeFiles, nodePlan);
    expect(second.image).toEqual(first.image);
    expect(second.lines.join('\n')).not.toContain('npm');
    const changed = await build({ ...nodeFiles, 'more.txt': 'more' }, nodePlan);
    expect(changed.image.image).not.toBe(first.image.image);
    const earlier = { kind: 'earlier' as const, earlier: first.image };
    expect(await bed.runtime.ensureImage(earlier, () => undefined, timeoutSignal(20_000))).toEqual(first.image);
  });

  it('does not reinstall if only files changed that the installation does not read', async () => {
    const first = await build(nodeFiles, nodePlan);
    expect(first.lines.join('\n')).not.toContain('Using cache: the packages');
    const files = { ...nodeFiles, 'build.mjs': nodeFiles['build.mjs'].replace('rope.knot()', "'changed ' + rope.knot()") };
    const { image, lines } = await build(files, nodePlan);
    expect(lines.join('\n')).toContain('Using cache: the packages were installed before');
    expect((await answerOf(image)).answer).toEqual({ knot: 'bowline', built: 'changed bowline salty', flavor: 'salty' });
  });

  it('reports in one sentence which command failed, and logs its output', async () => {
    const files = { ...nodeFiles, 'build.mjs': 'console.error("so far so good"); console.error("no such knot"); process.exit(3);' };
    const failure = await build(files, nodePlan).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RuntimeRefused);
    expect((failure as Error).message).toMatch(/node build\.mjs failed with exit code 3: no such knot/);
    expect((failure as { lines: string[] }).lines.join('\n')).toContain('so far so good');
  });

  it('refuses a start command that is a shell string', async () => {
    await expect(build(nodeFiles, { ...nodePlan, start: ['sh', '-c', 'node server.mjs'] })).rejects.toThrow(ShellCommand);
  });

  it('passes the operator’s settings to the build, and not to the agent', async () => {
    const canary = `canary-${randomUUID()}`;
    const script = `import { writeFileSync } from 'node:fs'; writeFileSync('built.txt', String(process.env.MIRROR_TOKEN?.length));`;
    const settings = { variables: { MIRROR_TOKEN: canary }, caFile: null };
    const { image } = await build({ ...nodeFiles, 'build.mjs': script }, nodePlan, settings);
    const { view, answer } = await answerOf(image);
    expect(answer.built).toBe(String(canary.length));
    const { stdout } = await bed.runtime.exec(view.handle, { ...say(''), argv: ['node', '-p', 'JSON.stringify(process.env)'] });
    expect(stdout.toString()).not.toContain(canary);
    await bed.runtime.remove(view.handle);
  });

  it('gives the agent’s own variables to the build, and builds anew when one has changed', async () => {
    const script = `import { writeFileSync } from 'node:fs'; writeFileSync('built.txt', [process.env.API_URL, process.env.FLAVOR, process.env.PATH].join(' '));`;
    const files = { ...nodeFiles, 'build.mjs': script };
    const built = async (API_URL: string) => {
      const settings = { ...noSettings, agent: { API_URL, FLAVOR: 'sweet', PATH: '/nowhere' } };
      const { image } = await build(files, nodePlan, settings);
      const { view, answer } = await answerOf(image);
      await bed.runtime.remove(view.handle);
      return answer;
    };
    const first = await built('https://one.example.com');
    expect(first.built).toMatch(/^https:\/\/one\.example\.com sweet \/(?!nowhere)/);
    expect((await built('https://two.example.com')).built).toContain('two.example.com sweet');
    expect(first.flavor).toBe('salty');
  });

  it('kills a build with all its processes when the deployment is canceled', async () => {
    const files = { ...nodeFiles, 'build.mjs': 'console.log("building"); setInterval(() => 0, 1_000);' };
    const cancel = new AbortController();
    const { directory } = bed.under.program(files, ['unused']) as { directory: string };
    const log = (line: string) => {
      if (line.includes('building')) cancel.abort(new Error('canceled'));
    };
    const source = { kind: 'project' as const, directory, plan: nodePlan, settings: noSettings };
    await expect(bed.runtime.ensureImage(source, log, cancel.signal)).rejects.toThrow('canceled');
  });
}
