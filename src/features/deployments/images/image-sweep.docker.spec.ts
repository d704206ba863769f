import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { fixtureRuntime } from '../../../../test/support/fixture-runtime.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../../test/support/features.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { answering } from '../../../../test/support/answering-image.ts';
import { TestRegistry } from '../../../../test/support/test-registry.ts';
import { until } from '../../../../test/support/until.ts';
import { SourceHosts } from '../../agents/services.ts';
import { Database } from '../../../postgres/database/database.ts';
import { pull } from '../../../runtime/docker/image-sources/registry.ts';
import { ImageClaims } from './image-claims.service.ts';
import { ImageSweep } from './image-sweep.service.ts';

describe('an image that no agent needs', () => {
  let bed: DockerFixture;
  let server: TestServer;
  let agents: AgentFixture;
  let registry: TestRegistry;
  let shared: string;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    registry = await TestRegistry.start({ credential: null });
    shared = await published('shared');
    const runtime = fixtureRuntime(bed);
    const environment = { MOORING_ALLOW_PRIVATE_SOURCES: '127.0.0.1', MOORING_SHARED_IMAGES: shared };
    server = await startFeatureServer({ ...runningFeatures(runtime), environment });
    agents = new AgentFixture(server);
    for (const account of ['acme', 'other']) await agents.account(account, 50);
  });
  afterAll(async () => {
    await server?.close();
    registry?.close();
    await bed?.close();
  });
  afterEach(() => jest.restoreAllMocks());

  /** Publishes an image whose program answers on the agent's port, and returns a reference to it. */
  async function published(tag: string): Promise<string> {
    return registry.publish(tag, await answering.files(`${tag} ${randomUUID()}`), answering.command);
  }

  const call = (account: string, method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: `mk_${account}`, json, headers: { prefer: 'wait=60' } });
  const sweep = () => server.app.get(ImageSweep, { strict: false }).run(() => undefined);
  const idOf = async (image: string) => (await bed.docker.getImage(image).inspect()).Id;
  const isThere = async (image: string) => bed.runtime.images.has(image);
  const isGone = (image: string) => until(`${image} is gone`, async () => ((await isThere(image)) ? undefined : true));
  const recordsOf = async (agentId: string, account = 'acme') =>
    (await call(account, 'GET', `/api/v1/agents/${agentId}/deployments`)).json as { id: string; build_log: string; status: string }[];

  async function deploy(agentId: string, image: string, account = 'acme'): Promise<string> {
    const answer = await call(account, 'POST', `/api/v1/agents/${agentId}/deploy`, { image_name: image });
    expect([answer.json.status, answer.json.message]).toEqual(['active', expect.any(String)]);
    return idOf(image);
  }
  async function deployed(image: string, account = 'acme'): Promise<{ agentId: string; id: string }> {
    const agentId = await agents.created(account, { image: 'docker', image_name: image });
    return { agentId, id: await deploy(agentId, image, account) };
  }
  const remove = async (agentId: string, account = 'acme') =>
    expect((await call(account, 'DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);

  it('is removed: an agent keeps its newest five and gets an older one from its registry, and all go with it', async () => {
    const first = await published('v1');
    const { agentId, id } = await deployed(first);
    const other = await deployed(first, 'other');
    const versions = [id];
    for (const version of [2, 3, 4, 5, 6, 7]) versions.push(await deploy(agentId, await published(`v${version}`)));
    await isGone(versions[1] as string);
    await sweep();
    // The oldest one is the one of another account's agent.
    expect(await Promise.all(versions.map(isThere))).toEqual([true, false, true, true, true, true, true]);
    await remove(other.agentId, 'other');
    await isGone(id);

    const [, second] = (await recordsOf(agentId)).toReversed();
    const rollBack = () => call('acme', 'POST', `/api/v1/agents/${agentId}/rollback`, { deployment_id: second?.id });
    // Its registry is checked as it is before any pull.
    jest.spyOn(server.app.get(SourceHosts, { strict: false }), 'scopeOf').mockResolvedValueOnce('private');
    await rollBack();
    expect((await recordsOf(agentId))[0]).toMatchObject({ status: 'failed', message: expect.stringContaining('has a private address') });
    expect(await isThere(versions[1] as string)).toBe(false);
    const back = await rollBack();
    expect(back.json.status).toBe('active');
    expect((await recordsOf(agentId))[0]?.build_log).toContain('Status: Downloaded newer image');
    expect(await isThere(versions[1] as string)).toBe(true);

    await remove(agentId);
    for (const version of versions) await isGone(version);
  });

  it('stays if the operator shares it, had it before, or runs a container of it', async () => {
    const [had, ran] = [await published('had'), await published('ran')];
    await pull(bed.docker, had, () => undefined, timeoutSignal(30_000));
    const each = [];
    for (const image of [shared, had, ran]) each.push(await deployed(image));
    const container = await bed.docker.createContainer({ Image: ran });
    for (const { agentId } of each) await remove(agentId);
    await sweep();
    expect(await Promise.all([shared, had, ran].map(isThere))).toEqual([true, true, true]);
    await container.remove();
    await sweep();
    expect(await Promise.all([shared, had, ran].map(isThere))).toEqual([true, true, false]);
    for (const image of [shared, had]) await bed.docker.getImage(image).remove();
  });

  it('keeps the name that somebody else gave it, and is theirs from then on', async () => {
    const { agentId, id } = await deployed(await published('named'));
    const theirs = `mooring-test-${bed.instance}:theirs`;
    await bed.docker.getImage(id).tag({ repo: `mooring-test-${bed.instance}`, tag: 'theirs' });
    await remove(agentId);
    await until('our names are gone', async () => {
      await sweep();
      return (await bed.docker.getImage(id).inspect()).RepoTags.length === 1 ? true : undefined;
    });
    expect((await bed.docker.getImage(id).inspect()).RepoTags).toEqual([theirs]);
    await bed.docker.getImage(theirs).remove();
  });

  it('stays for a week after its last use by a build, if only builds use it', async () => {
    const base = await published('base');
    const directory = await mkdtemp(join(tmpdir(), 'mooring-base-'));
    await writeFile(join(directory, 'Dockerfile'), `FROM ${base}\nLABEL mooring.instance=${bed.instance}\nRUN ["/bin/busybox", "false"]\n`);
    const source = { kind: 'dockerfile' as const, directory, dockerfile: 'Dockerfile', start: null, accountId: 'one' };
    const bases = [{ kind: 'reference' as const, reference: base, mayUse: async () => false }];
    const built = bed.runtime.ensureImage({ ...source, bases }, () => undefined, timeoutSignal(60_000));
    await expect(built).rejects.toThrow('non-zero code');
    await rm(directory, { recursive: true });
    const id = await idOf(base);

    const list = bed.runtime.images.list.bind(bed.runtime.images);
    const ofBuilds = async () => (await list()).own.filter(({ builtOnAt }) => builtOnAt !== null);
    const [step, ...others] = (await ofBuilds()).filter((image) => image.id !== id);
    expect([step?.isBase, others]).toEqual([false, []]);
    await sweep();
    expect(await Promise.all([id, step?.id ?? ''].map(isThere))).toEqual([true, true]);
    const weekAgo = new Date(Date.now() - 8 * 86_400_000);
    jest.spyOn(bed.runtime.images, 'list').mockImplementation(async () => {
      const { own, ...sizes } = await list();
      return { ...sizes, own: own.map((image) => ({ ...image, builtOnAt: image.builtOnAt && weekAgo })) };
    });
    await until('both are gone', async () => {
      await sweep();
      return (await ofBuilds()).length === 0 ? true : undefined;
    });
    expect(await Promise.all([id, step?.id ?? ''].map(isThere))).toEqual([false, false]);
  });

  it('is removed by the next look if the service was killed in the middle of one', async () => {
    const image = await published('half');
    const { agentId, id } = await deployed(image);
    const removal = jest.spyOn(bed.runtime.images, 'remove').mockImplementation(async () => {
      // The first of its calls was done by the time of the kill.
      await bed.docker.getImage(image).remove();
      throw new Error('the service was killed');
    });
    await remove(agentId);
    await until('a look has begun', async () => (removal.mock.calls.length > 0 ? true : undefined));
    expect(await isThere(id)).toBe(true);
    removal.mockRestore();
    await sweep();
    expect(await isThere(id)).toBe(false);
  });

  it('is pulled again by a deployment that found it right before it was removed', async () => {
    const image = await published('raced');
    const { agentId, id } = await deployed(image);
    await remove(agentId);
    const claims = server.app.get(ImageClaims, { strict: false });
    const claim = claims.claim.bind(claims);
    let removed = false;
    jest.spyOn(claims, 'claim').mockImplementation(async (...args) => {
      if (!removed) removed = await bed.runtime.images.remove(id);
      return claim(...args);
    });
    const next = await deployed(image);
    expect([removed, next.id]).toEqual([true, id]);
    expect((await recordsOf(next.agentId))[0]?.build_log).toContain('The engine has lost');
    await remove(next.agentId);
  });

  it('is built again by a deployment that had just built it when it was removed', async () => {
    const getImage = bed.docker.getImage.bind(bed.docker);
    const removed: string[] = [];
    jest.spyOn(bed.docker, 'getImage').mockImplementation((name: string) => {
      const image = getImage(name);
      const inspect = image.inspect.bind(image);
      image.inspect = async (...args: []) => {
        if (name.includes(':program-') && removed.length < 2 && (await bed.runtime.images.remove((await inspect(...args)).Id)))
          removed.push(name);
        return inspect(...args);
      };
      return image;
    });
    const agentId = await agents.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
    const answer = await call('acme', 'POST', `/api/v1/agents/${agentId}/deploy`, {});
    expect([answer.json.status, removed.length]).toEqual(['active', 2]);
    expect((await recordsOf(agentId))[0]?.build_log).toContain('The engine has lost');
    await remove(agentId);
  });

  it('is not removed while a deployment claims it', async () => {
    const { agentId, id } = await deployed(await published('claimed'));
    const claims = server.app.get(ImageClaims, { strict: false });
    const looked = jest.fn(async () => true);
    await claims.claim({ deployment_id: 'another', agent_id: agentId }, id);
    expect(await claims.unlessClaimed([id], looked)).toBe(false);
    expect(looked).not.toHaveBeenCalled();
    // A claim that comes while an image is removed waits until that is over.
    let claimed = false;
    await claims.unlessClaimed(['of nobody'], async () => {
      void claims.claim({ deployment_id: 'late', agent_id: agentId }, id).then(() => (claimed = true));
      await until('the claim waits', async () => {
        const waiting = await server.app
          .get(Database, { strict: false })
          .query(`select from pg_locks where not granted and relation = 'image_claims'::regclass`);
        return waiting.length > 0 ? true : undefined;
      });
      expect(claimed).toBe(false);
      return true;
    });
    await until('the claim is made', async () => (claimed ? true : undefined));
    await remove(agentId);
    await isGone(id);
  });
});
