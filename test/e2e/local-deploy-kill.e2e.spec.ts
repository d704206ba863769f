import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { GitServer } from '../support/git-server.ts';
import { Kills } from '../support/kills.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';
import { tellBuilds, waitingCommand, waitingProject } from '../support/waiting-project.ts';

/** Returns the command lines of the processes that work below the folder. */
function commandsIn(folder: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      const isThere = /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
      return isThere ? [readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').join(' ').trim()] : [];
    } catch {
      return [];
    }
  });
}

describe('a deployment on the local runtime during which the service is killed', () => {
  let folder: string;
  let git: GitServer;
  let service: StartedService;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-local-kill-'));
    git = await GitServer.start();
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: git.host, MOORING_BUILD_CA_FILE: join(folder, 'certificates.pem') };
    service = await StartedService.start({ runtime: 'local', environment });
  });
  afterAll(async () => {
    await service?.dispose();
    await git?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('installs the packages of its project anew after a restart, and nothing of the first installation is left', async () => {
    const certificates = join(folder, 'certificates.pem');
    const local = join(service.dataDir, 'local');
    git.commit('project', waitingProject);
    await tellBuilds(certificates, { toWait: true });
    const { status, body } = await service.call('POST', '/api/v1/provision', { name: 'project', repo_url: git.url('project') });
    expect([status, body]).toEqual([201, expect.anything()]);
    const isInstalling = () => (commandsIn(join(local, 'builds')).some((line) => line.startsWith(waitingCommand)) ? true : undefined);
    await until('the installation waits', isInstalling);

    await new Kills(service).now(async () => {
      await until('the processes end with the service', () => (commandsIn(local).length === 0 ? true : undefined));
      await tellBuilds(certificates, { toWait: false });
    });
    const settled = async () => {
      const [record] = (await service.call('GET', `/api/v1/agents/${body.agent_id}/deployments`)).body;
      return record.completed_at === null ? undefined : record;
    };
    const record = await until('the deployment settles', settled);
    expect(record).toMatchObject({ id: body.deployment_id, status: 'success' });
    expect(record.build_log.match(/Running npm ci/g)).toHaveLength(2);
    expect(readdirSync(join(local, 'builds'))).toEqual([]);
    expect(readdirSync(join(local, 'images'))).toHaveLength(1);
    expect(readdirSync(join(service.dataDir, 'repositories'))).toEqual([]);
  });
});
