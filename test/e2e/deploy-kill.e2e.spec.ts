import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { DeploymentFixture } from '../support/deployment-fixture.ts';
import { killable, Kills } from '../support/kills.ts';
import { until } from '../support/until.ts';
import { tellBuilds, waitingCommand, waitingProject, waitingPythonProject } from '../support/waiting-project.ts';

/** Kills the service at each moment of a deployment from a registry or a repository, with custom files and a script. */

/** The time within which a deployment settles that installs packages, of which Python makes an environment first, in ms. */
const INSTALLED_WITHIN_MS = 150_000;
/** The most steps of one deployment that the test walks through. */
const STEPS_MAX = 12;
/** The size of each of the custom files whose copying is interrupted, in bytes. */
const LARGE_FILE_BYTES = 900_000;

let bed: DeploymentFixture;
let kills: Kills;
let folder: string;
/** The file that the operator provides to builds. */
let certificates: string;

const put = async (agentId: string, files: object[]) =>
  expect((await bed.service.call('POST', `/api/v1/agents/${agentId}/files`, { files })).status).toBe(201);
const output = async (agentId: string, text: string) =>
  (await bed.service.call('POST', `/api/agents/${agentId}/exec`, { command: text })).body.stdout as string;

/** Expects that the deployment succeeds after the restart, that its agent has one container, and that nothing else is left. */
async function expectSuccess(agentId: string, deploymentId: string, withinMs?: number): Promise<string> {
  expect(await bed.settled(agentId, deploymentId, withinMs)).toMatchObject({ status: 'success', agent: 'active' });
  await bed.onlyNeeded(1);
  return (await bed.record(agentId, deploymentId)).build_log;
}

describe('a deployment during which the service is killed', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-order-'));
    certificates = join(folder, 'certificates.pem');
    await tellBuilds(certificates, { toWait: false });
    bed = await DeploymentFixture.open({ ...(await killable()), environment: { MOORING_BUILD_CA_FILE: certificates } });
    kills = new Kills(bed.service);
    await bed.warmUp();
  });
  afterAll(async () => {
    await bed?.close();
    process.stdout.write(`deployments: ${kills?.count} kills\n`);
    await rm(folder, { recursive: true, force: true });
  });

  afterEach(async () => {
    await kills.cancel();
    if (!bed.service.running) await bed.service.start();
    await bed.clear();
  });

  it.each([
    ['image', 'the registry is asked for the image', /\/manifests\//],
    ['image', 'a layer is downloaded', /\/blobs\//],
    ['repository', 'the branches of the repository are asked for', /\/info\/refs/],
    ['repository', 'the commit is downloaded', /\.git\/git-upload-pack$/],
  ] as const)('succeeds after a restart: from %s, killed when %s', async (from, _, path) => {
    const server = from === 'image' ? bed.registry : bed.git;
    bed.commit();
    const agentId = await bed.agent(from);
    const held = server.held.hold(path);
    const deploymentId = await bed.deploy(agentId);
    await held;
    await kills.now(() => server.held.release());
    await expectSuccess(agentId, deploymentId);
  });

  it('succeeds after a restart with the newest commit if it was killed in the middle of a build', async () => {
    bed.commit(['RUN ["sh", "-c", "echo made > /made"]', 'RUN ["sleep", "600"]']);
    const agentId = await bed.agent('repository');
    const deploymentId = await bed.deploy(agentId);
    await bed.running('sleep 600');
    let commit = '';
    await kills.now(() => (commit = bed.commit(['RUN ["sh", "-c", "echo made > /made"]'])));
    const log = await expectSuccess(agentId, deploymentId);
    expect(log).toContain(`Fetched the commit ${commit}`);
    expect(await output(agentId, 'cat /made')).toBe('made\n');
  });

  it.each([
    ['Node', waitingProject, waitingCommand, /Running npm ci/g],
    ['Python', waitingPythonProject, 'wait.py', /Running pip install/g],
  ])(
    'installs the packages of a %s project again if it was killed during the installation, and the first run has ended',
    async (_, files, line, command) => {
      bed.git.commit('project', files);
      await tellBuilds(certificates, { toWait: true });
      const agentId = await bed.agent('repository');
      const deploymentId = await bed.deploy(agentId);
      const first = await bed.running(line);
      const { Mounts } = await bed.docker.getContainer(first).inspect();
      await kills.now(() => tellBuilds(certificates, { toWait: false }));
      const log = await expectSuccess(agentId, deploymentId, INSTALLED_WITHIN_MS);
      expect(log.match(command)).toHaveLength(2);
      await expect(bed.docker.getContainer(first).inspect()).rejects.toMatchObject({ statusCode: 404 });
      expect(Mounts).toHaveLength(1);
      for (const { Name = '' } of Mounts) await expect(bed.docker.getVolume(Name).inspect()).rejects.toMatchObject({ statusCode: 404 });
    },
  );

  it('has all custom files after a restart if it was killed during their copy', async () => {
    bed.commit();
    const agentId = await bed.agent('repository');
    const content = 'x'.repeat(LARGE_FILE_BYTES);
    const names = Array.from({ length: 8 }, (_, n) => `large-${n}`);
    for (const path of names) await put(agentId, [{ path, content, target_dir: '/opt/large' }]);
    const deploymentId = await bed.deploy(agentId);
    await until(
      'the container is made',
      async () => {
        const made = await bed.docker.listContainers({ all: true, filters: { label: [`mooring.agent=${agentId}`] } });
        return made.length > 0 ? true : undefined;
      },
      { everyMs: 2 },
    );
    await kills.now();
    await expectSuccess(agentId, deploymentId);
    expect(await output(agentId, 'cat /opt/large/* | wc -c')).toBe(`${8 * LARGE_FILE_BYTES}\n`);
  });

  it('runs its script again in a new container if it was killed while the script ran, and the first run has ended', async () => {
    bed.commit();
    const agentId = await bed.agent('repository');
    // The script waits at its first run only.
    const content = 'echo run >> /data/runs; echo here >> /runs; [ "$(wc -l < /data/runs)" -gt 1 ] || sleep 601';
    await put(agentId, [{ path: 'slow.sh', content }]);
    const deploymentId = await bed.deploy(agentId);
    const first = await bed.running('sleep 601');
    await kills.now();
    const log = await expectSuccess(agentId, deploymentId);
    expect(log.match(/Running the custom script/g)).toHaveLength(2);
    expect(await output(agentId, 'cat /data/runs /runs')).toBe('run\nrun\nhere\n');
    await expect(bed.docker.getContainer(first).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it('succeeds after a restart if it was killed right after any of its steps', async () => {
    const steps: number[] = [];
    const agentId = await bed.agent('repository');
    await put(agentId, [{ path: 'quick.sh', content: 'echo ran > /ran' }]);
    for (let after = 1; after <= STEPS_MAX; after++) {
      bed.commit([`ENV STEP=${after}`]);
      await kills.order({ after, key: agentId, saga: 'deployments' });
      // The response may be lost with the process, but the deployment was stored before its first step.
      await bed.deploy(agentId).catch(() => undefined);
      const died = await kills.diesAndComesBack(
        async () => (await bed.service.call('GET', `/api/v1/agents/${agentId}`)).body.status === 'active',
      );
      const [{ id }] = (await bed.service.call('GET', `/api/v1/agents/${agentId}/deployments`)).body;
      await expectSuccess(agentId, id);
      expect(await output(agentId, 'cat /ran; echo $STEP')).toBe(`ran\n${after}\n`);
      if (!died) break;
      steps.push(after);
    }
    process.stdout.write(`killed after ${steps.length} steps\n`);
    expect(steps.length).toBeGreaterThan(5);
    expect(steps.length).toBeLessThan(STEPS_MAX);
  });
});
