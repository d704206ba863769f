import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { GitServer } from '../support/git-server.ts';
import { killable, Kills } from '../support/kills.ts';
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

/** The most steps of one deployment that the test walks through. */
const STEPS_MAX = 20;
/** Notes on the volume that it runs, and ends when it is let go there. */
const release = `
  const { appendFileSync, existsSync } = require('node:fs');
  const at = (name) => process.env.MOORING_VOLUME + '/' + name;
  appendFileSync(at('runs'), process.env.HOSTNAME + '\\n');
  console.log('it waits');
  setInterval(() => existsSync(at('go')) && process.exit(), 50);
`;
/** Answers with the number of release commands that have run. */
const counting = `
  const { readFileSync } = require('node:fs');
  const count = () => readFileSync(process.env.MOORING_VOLUME + '/runs', 'utf8').trim().split('\\n').length;
  require('node:http').createServer((request, response) => response.end(String(count()))).listen(process.env.PORT, process.env.HOST);
`;

describe('a deployment on the local runtime during which the service is killed', () => {
  let folder: string;
  let git: GitServer;
  let service: StartedService;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-local-kill-'));
    git = await GitServer.start();
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: git.host, MOORING_BUILD_CA_FILE: join(folder, 'certificates.pem') };
    await tellBuilds(join(folder, 'certificates.pem'), { toWait: false });
    service = await StartedService.start({ ...(await killable()), runtime: 'local', environment });
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

  describe('with a release command', () => {
    let agentId: string;
    const commit = (mark: string) =>
      git.commit('released', {
        Procfile: 'release: node release.js\nweb: node agent.js\n',
        'package.json': '{}',
        'release.js': `${release}// ${mark}\n`,
        'agent.js': counting,
      });
    /** The agent does not run meanwhile, so its volume is written to from outside. */
    const letGo = () => {
      const local = join(service.dataDir, 'local');
      const [instance = ''] = readdirSync(local).filter((name) => readdirSync(join(local, name)).includes('volumes'));
      writeFileSync(join(local, instance, 'volumes', agentId, 'go'), '');
    };
    const latest = async () => (await service.call('GET', `/api/v1/agents/${agentId}/deployments`)).body[0];
    const settled = () => until('the deployment settles', async () => ((await latest()).completed_at === null ? undefined : latest()));
    const runs = async () => {
      const { body } = await service.call('POST', `/api/agents/${agentId}/exec`, { command: 'wc -l < runs' });
      return Number(body.stdout);
    };
    const deploy = () => service.call('POST', `/api/v1/agents/${agentId}/deploy`);

    beforeAll(async () => {
      commit('first');
      const { status, body } = await service.call('POST', '/api/v1/provision', { name: 'released', repo_url: git.url('released') });
      expect(status).toBe(201);
      agentId = body.agent_id;
      await until('it runs', async () => ((await latest()).build_log.includes('it waits') ? true : undefined));
      letGo();
      expect(await settled()).toMatchObject({ status: 'success' });
    });

    it('waits for its release command, which goes on over the kill, and its output is in the log once', async () => {
      expect((await service.call('DELETE', `/api/agents/${agentId}/files/delete?path=go`)).status).toBe(204);
      const before = await runs();
      commit('killed');
      await deploy();
      await until('it runs', async () => ((await latest()).build_log.includes('it waits') ? true : undefined));
      await new Kills(service).now();
      expect(await latest()).toMatchObject({ status: 'building' });
      letGo();
      const record = await settled();
      expect(record).toMatchObject({ status: 'success' });
      expect(record.build_log.match(/it waits/g)).toHaveLength(1);
      expect(await runs()).toBe(before + 1);
    });

    it('runs it once, however the service was killed right after a step', async () => {
      letGo();
      const kills = new Kills(service);
      let steps = 0;
      for (let after = 1; after <= STEPS_MAX; after++) {
        const before = await runs();
        commit(`step ${after}`);
        await kills.order({ after, key: agentId, saga: 'deployments' });
        await deploy().catch(() => undefined);
        const isActive = async () => (await service.call('GET', `/api/v1/agents/${agentId}`)).body.status === 'active';
        const died = await kills.diesAndComesBack(isActive);
        expect(await settled()).toMatchObject({ status: 'success' });
        expect(await runs()).toBe(before + 1);
        if (!died) break;
        steps = after;
      }
      expect(steps).toBeGreaterThan(6);
      expect(steps).toBeLessThan(STEPS_MAX);
    });
  });
});
