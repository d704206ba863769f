import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';

import Dockerode from 'dockerode';

import { seenContainers } from '../support/engine.ts';
import { removeInstance } from '../support/images.ts';
import { OutsidePostgres } from '../support/outside-postgres.ts';
import { buildServiceImage, docker, serviceImages } from '../support/service-image.ts';
import { until } from '../support/until.ts';

const socket = '/var/run/docker.sock';
const password = 'a password for the test';

describe('the image of the service', () => {
  const tag = randomBytes(6).toString('hex');
  const container = `mooring-test-service-${tag}`;
  const images = serviceImages(tag);
  let database: OutsidePostgres;
  let url: string;
  let instance: string | undefined;

  const ask = async (method: string, path: string, body?: unknown, token?: string) => {
    const headers = {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      prefer: 'wait=60',
    };
    const answer = await fetch(`${url}${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await answer.text();
    return { status: answer.status, body: (text === '' ? {} : JSON.parse(text)) as Record<string, string> };
  };

  beforeAll(async () => {
    database = await OutsidePostgres.start();
    await buildServiceImage(tag);
    const settings = {
      DATABASE_URL: database.url,
      PORT: '0',
      MOORING_RUNTIME: 'docker',
      MOORING_MASTER_KEY: randomBytes(32).toString('base64'),
      MOORING_ADMIN_PASSWORD: password,
      MOORING_SAMPLE_AGENT: 'off',
    };
    const environment = Object.entries(settings).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
    const group = ['--group-add', String(statSync(socket).gid), '--volume', `${socket}:${socket}`];
    const hardened = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
    await docker('run', '--detach', '--name', container, '--network', 'host', ...hardened, ...group, ...environment, images[0]);
    url = await until('the service listens', async () => {
      const [view] = JSON.parse(await docker('inspect', container)) as [{ State: { Running: boolean } }];
      const said = await docker('logs', container);
      if (!view.State.Running) throw new Error(`the service ended: ${said.slice(-4000)}`);
      return /Mooring listens on (http:\/\/\S+)/.exec(said)?.[1];
    });
  }, 900_000);

  afterAll(async () => {
    await docker('rm', '--force', '--volumes', container).catch(() => undefined);
    if (instance !== undefined) await removeInstance(new Dockerode(), instance);
    for (const image of images) await docker('image', 'rm', '--force', image).catch(() => undefined);
    await database?.stop();
  });

  it('runs as an ordinary user, creates an agent on the host’s engine, and gets a reply from it', async () => {
    expect(await docker('top', container, '-eo', 'pid,uid,args')).toMatch(/10001\s+node dist\/main\.js/);
    const { body: session } = await ask('POST', '/api/auth/login', { email: 'admin@localhost', password });
    const made = await ask('POST', '/api/agents', { name: 'inside', templateId: 'hello' }, session.session_token);
    expect(made).toMatchObject({ status: 201, body: { status: 'active' } });
    const agentId = made.body.agent_id ?? '';
    const [seen] = await seenContainers(agentId);
    instance = (await docker('inspect', '--format', '{{index .Config.Labels "mooring.instance"}}', seen?.id ?? '')).trim();
    const chat = await ask('POST', `/api/agents/${agentId}/chat`, { message: 'hello' }, session.session_token);
    expect(chat).toMatchObject({ status: 200, body: { response: expect.stringContaining('hello') } });
    expect(await ask('DELETE', `/api/agents/${agentId}`, undefined, session.session_token)).toMatchObject({ status: 204 });
    expect(await seenContainers(agentId)).toEqual([]);
  });

  it('stops in order on SIGTERM', async () => {
    await docker('stop', '--time', '30', container);
    expect((await docker('inspect', '--format', '{{.State.ExitCode}} {{.State.OOMKilled}}', container)).trim()).toBe('0 false');
    expect(await docker('logs', container)).toContain('"stopped"');
  });
});
