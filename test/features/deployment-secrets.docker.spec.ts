import { readdirSync, readFileSync } from 'node:fs';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { expectHidden, spellingsOf } from '../support/secret-leak-probe.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { GitServer } from '../support/git-server.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';
import { busyboxEntries } from '../support/images.ts';
import { TestRegistry } from '../support/test-registry.ts';

/** One secret for each place in which an account keeps some. */
const secrets = {
  account: 'canary-account-1/+very?secret',
  variable: 'canary-variable-2/+very?secret',
  git: 'canary-git-3/+very?secret',
  registry: 'canary-registry-4/+very?secret',
  address: 'canary-address-5+very',
};
const command = ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'];
/** Prints the variables as they are, in base64, and URL-encoded. */
const printing = `
echo "$ACCOUNT $VARIABLE"
for value in "$ACCOUNT" "$VARIABLE"; do
  printf %s "$value" | /bin/busybox base64
  echo "$value" | /bin/busybox sed 's,/,%2F,g; s,+,%2B,g; s,?,%3F,g'
done
echo over >&2
`;

describe('the secrets of an account whose agents are deployed', () => {
  let bed: DockerFixture;
  let git: GitServer;
  let registry: TestRegistry;
  let server: TestServer;
  const answers: TestResponse[] = [];
  const commandLines = new Set<string>();
  let watch: NodeJS.Timeout;

  beforeAll(async () => {
    watch = setInterval(readCommandLines, 10);
    git = await GitServer.start(`robot:${secrets.git}`);
    const entries = [...(await busyboxEntries()), { name: 'www/healthz', type: 'file' as const, mode: 0o644, content: 'well' }];
    registry = await TestRegistry.start({ credential: `robot:${secrets.registry}` });
    await registry.publish('1', entries, command);
    bed = await DockerFixture.open();
    const runtime = fixtureRuntime(bed);
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: `${git.host},${registry.host}`, MOORING_SHARED_IMAGES: bed.image };
    const features = runningFeatures(runtime);
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 100);
    await ask('PUT', '/api/v1/secrets/shared', { value: secrets.account });
    await ask('PUT', `/api/v1/source-credentials/git/${git.host}`, { username: 'robot', password: secrets.git });
    await ask('PUT', `/api/v1/source-credentials/registry/${registry.host}`, { username: 'robot', password: secrets.registry });
  });

  afterAll(async () => {
    clearInterval(watch);
    await server?.close();
    await bed?.docker.getImage(registry.image).remove({ force: true });
    registry?.close();
    await git?.close();
    await bed?.close();
  });

  const ask = async (method: string, path: string, json?: unknown): Promise<TestResponse> => {
    const answer = await server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100' } });
    answers.push(answer);
    return answer;
  };

  /** Collects what `ps` would show. */
  const readCommandLines = (): void => {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
        if (line.includes('canary')) commandLines.add(line);
      } catch {
        // The process has ended.
      }
    }
  };

  /** Deploys an agent with both kinds of secret variables and a script that prints them, and returns its id and its deployment's record. */
  const deployed = async (source: object) => {
    const envVars = { ACCOUNT: { secret: 'shared' }, PLAIN: 'x' };
    const made = await ask('POST', '/api/v1/provision', { name: 'x', auto_deploy: false, env_vars: envVars, ...source });
    const agent = `/api/v1/agents/${made.json.agent_id}`;
    await ask('POST', `${agent}/env`, { key: 'VARIABLE', value: secrets.variable, is_secret: true });
    await ask('POST', `${agent}/files`, { files: [{ path: 'print.sh', content: printing }] });
    expect((await ask('POST', `${agent}/deploy`)).json).toMatchObject({ status: 'active' });
    const [record] = (await ask('GET', `${agent}/deployments`)).json;
    await ask('GET', `${agent}/deployments/${record.id}/log`);
    await ask('GET', `${agent}/history`);
    return { id: made.json.agent_id as string, record };
  };

  const expectAbsent = (text: string) => {
    for (const secret of Object.values(secrets)) expect(spellingsOf(secret).filter((spelling) => text.includes(spelling))).toEqual([]);
  };

  /** Expects that the agent has its secrets, and that the engine shows none of them. */
  const expectHiddenByEngine = async (agentId: string) => {
    const [listed] = await bed.docker.listContainers({ filters: { label: [`mooring.agent=${agentId}`] } });
    const container = await bed.docker.getContainer(listed?.Id ?? '').inspect();
    const line = 'printf "%s " "$ACCOUNT" "$VARIABLE"';
    const { stdout } = await bed.runtime.exec(container.Id, { argv: ['sh', '-c', line], timeoutMs: 60_000, outputLimitBytes: 1_000 });
    expect(stdout.toString()).toBe(`${secrets.account} ${secrets.variable} `);
    const image = bed.docker.getImage(container.Image);
    expectAbsent(JSON.stringify([listed, container, await image.inspect(), await image.history()]));
  };

  it('are only in its container, whatever its Dockerfile and its scripts print', async () => {
    const dockerfile = [
      `FROM ${bed.image}`,
      'ARG ACCOUNT',
      'ARG VARIABLE',
      'RUN ["/bin/busybox", "sh", "-c", "echo build: $ACCOUNT $VARIABLE; /bin/busybox env"]',
      'COPY www /www',
      `CMD ${JSON.stringify(command)}`,
    ];
    git.commit('project', { Dockerfile: dockerfile.join('\n'), 'www/healthz': 'well' });
    const { id, record } = await deployed({ repo_url: git.url('project') });
    expect(record.build_log).toMatch(/build: *\n/);
    expect(record.build_log).toContain('over');
    expect(record.build_log.match(/•+/g)?.length).toBe(6);
    await expectHiddenByEngine(id);
  });

  it('are not in the image that was pulled with one of them', async () => {
    const { id, record } = await deployed({ image: 'docker', image_name: registry.image });
    expect(record.build_log).toContain('Downloaded newer image');
    expect(registry.seen).toContain(`robot:${secrets.registry}`);
    await expectHiddenByEngine(id);
  });

  it('are not repeated in the error for an address that contains one', async () => {
    for (const repo_url of [`https://robot:${secrets.address}@example.com/x.git`, `https://${secrets.address}@example.com/x.git`]) {
      const refused = await ask('POST', '/api/v1/provision', { name: 'x', repo_url });
      expect(refused).toMatchObject({ status: 400, json: { errors: [{ field: 'repo_url' }] } });
    }
  });

  it('are in no response, table, event, log line, metric or process list', async () => {
    answers.push(await ask('GET', '/api/v1/audit'), await ask('GET', '/api/v1/secrets'), await ask('GET', '/api/v1/source-credentials'));
    expect(git.seen).toContain(`robot:${secrets.git}`);
    for (const secret of Object.values(secrets)) await expectHidden(server, secret, answers);
    expectAbsent((await server.request('GET', '/metrics')).text);
    expectAbsent([...commandLines].join('\n'));
  });
});
