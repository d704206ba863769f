import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { DockerBed } from '../../../test/support/docker-bed.ts';
import { isReached } from '../../../test/support/locked-projects.ts';
import { nodeProjects } from '../../../test/support/node-projects.ts';
import { planProject } from './plan-project.ts';

/** This machine's own certificates, with which it reaches the registries. */
const certificates = '/etc/ssl/certs/ca-certificates.crt';
const BUILD_MS = 280_000;

describe('a project as people bring it', () => {
  let bed: DockerBed;
  let folder: string;
  let lines: string[];

  beforeAll(async () => {
    bed = await DockerBed.open();
  });
  afterAll(() => bed?.close());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-project-'));
    lines = [];
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** Builds the project of these files, runs it without changes to its image, and returns what it printed. */
  async function outputOf(files: Record<string, string>): Promise<string> {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), content);
    }
    const settings = { variables: {}, caFile: existsSync(certificates) ? certificates : null };
    const source = { kind: 'project' as const, directory: folder, plan: await planProject(folder), settings };
    const log = (line: string) => lines.push(line);
    const { image } = await bed.runtime.ensureImage(source, log, AbortSignal.timeout(BUILD_MS)).catch((error: unknown) => {
      throw new Error(lines.slice(-40).join('\n'), { cause: error });
    });
    const container = await bed.docker.createContainer({
      Image: image,
      Tty: true,
      HostConfig: { NetworkMode: 'none', ReadonlyRootfs: true, Tmpfs: { '/tmp': '' } },
    });
    try {
      await container.start();
      await container.wait();
      return (await container.logs({ stdout: true, stderr: true })).toString();
    } finally {
      await container.remove({ force: true });
    }
  }

  it.each(Object.keys(nodeProjects))(
    'is installed, built and started with %s',
    async (name) => {
      if (!(await isReached('npm', name))) return;
      expect(await outputOf(nodeProjects[name] ?? {})).toContain('runs 86400000 production');
    },
    BUILD_MS,
  );
});
