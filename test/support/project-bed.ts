import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { planProject } from '../../src/builds/projects/plan-project.ts';
import { planAt } from '../../src/runtime/project-plan.ts';
import { DockerFixture } from './docker-fixture.ts';

/** This machine's own certificates, with which it reaches the registries. */
const certificates = '/etc/ssl/certs/ca-certificates.crt';
export const PROJECT_MS = 280_000;

/** Builds projects as their files say, and runs them. */
export class ProjectBed {
  private constructor(private readonly bed: DockerFixture) {}

  static async open(): Promise<ProjectBed> {
    return new ProjectBed(await DockerFixture.open());
  }

  close(): Promise<void> {
    return this.bed.close();
  }

  /** Builds the project of these files, runs it without changes to its image, and returns what it printed. */
  async outputOf(files: Record<string, string>): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'mooring-project-'));
    const lines: string[] = [];
    try {
      for (const [name, content] of Object.entries(files)) {
        await mkdir(dirname(join(folder, name)), { recursive: true });
        await writeFile(join(folder, name), content);
      }
      const settings = { variables: {}, caFile: existsSync(certificates) ? certificates : null };
      const source = {
        kind: 'project' as const,
        directory: folder,
        plan: planAt(await planProject(folder), this.bed.runtime.portWord(8080)),
        settings,
      };
      const { image } = await this.bed.runtime.ensureImage(source, (line) => lines.push(line), AbortSignal.timeout(PROJECT_MS));
      return await this.run(image);
    } catch (error) {
      throw new Error(lines.slice(-40).join('\n'), { cause: error });
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  private async run(image: string): Promise<string> {
    const HostConfig = { NetworkMode: 'none', ReadonlyRootfs: true, Tmpfs: { '/tmp': '' } };
    const container = await this.bed.docker.createContainer({ Image: image, Tty: true, HostConfig });
    try {
      await container.start();
      await container.wait();
      return (await container.logs({ stdout: true, stderr: true })).toString();
    } finally {
      await container.remove({ force: true });
    }
  }
}
