import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { seenContainers, startsSince } from '../support/engine.ts';
import { SeenLog } from '../support/replica-checks.ts';
import { ReplicaUser } from '../support/replica-load.ts';
import { replicaOptions, Replicas } from '../support/replicas.ts';
import { StartedService } from '../support/started-service.ts';
import { span, until } from '../support/until.ts';
import { accountsProjection } from '../../src/features/accounts/accounts.projection.ts';
import { apiKeysProjection } from '../../src/features/api-keys/api-keys.projection.ts';
import { tableOf } from '../../src/eventsourcing/projections/projection.ts';

/** The time in which the replicas are killed and suspended under load, in s; the environment can set a longer soak. */
const SOAK_SECONDS = Number(process.env.SOAK_SECONDS ?? 40);
/** The length of a suspension, which is longer than a lease (10 s). */
const SUSPENDED_MS = 13_000;
const USERS = 6;
const inTransit = ['deploying', 'starting', 'stopping', 'restarting', 'waking', 'deleting'];

describe('two services on one database and one engine', () => {
  let replicas: Replicas;
  let log: SeenLog;
  let session = '';
  beforeAll(async () => {
    replicas = await Replicas.start(2, 'docker', { MOORING_SAMPLE_AGENT: 'on' });
    log = await SeenLog.open(replicas.database.url);
    const { email, password } = replicas.firstRun;
    session = (await replicas.at(0).call('POST', '/api/auth/login', { email, password })).body.session_token;
  });
  afterAll(async () => {
    await log?.close();
    await replicas?.dispose();
  });

  const bySession = () => ({ authorization: `Bearer ${session}` });
  const agent = async (name: string): Promise<string> => {
    const made = await replicas.at(0).call('POST', '/api/agents', { name, templateId: 'hello' }, { prefer: 'wait=60' });
    expect(made.body).toMatchObject({ status: 'active' });
    return made.body.agent_id;
  };

  it('have one first run together although they started at the same time', async () => {
    expect((await log.query(`select account_id from ${tableOf(accountsProjection)}`)).length).toBe(1);
    expect((await log.query(`select key_id from ${tableOf(apiKeysProjection)} where revoked_at is null`)).length).toBe(1);
    for (const replica of replicas.all) {
      const agents = await replica.call('GET', '/api/v1/agents');
      expect(agents.body.map(({ agent_id }: { agent_id: string }) => agent_id)).toEqual([replicas.firstRun.agent_id]);
    }
  });

  it('wake a sleeping agent once for a hundred messages, and deliver each once', async () => {
    const agentId = await agent('sleeper');
    const path = `/api/agents/${agentId}`;
    const asleep = await replicas.at(1).call('POST', `${path}/sleep`, { depth: 'stopped' }, { prefer: 'wait=30' });
    expect(asleep.body).toMatchObject({ status: 'sleeping' });
    const since = Math.floor(Date.now() / 1000);
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) => replicas.at(index).call('POST', `${path}/chat`, { message: `message ${index}` })),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    answers.forEach(({ body }, index) => expect(body.response).toContain(`message ${index} `));
    expect(await startsSince(agentId, since)).toBeLessThanOrEqual(1);
    expect(await seenContainers(agentId)).toHaveLength(1);
    const answered = async () => (await log.lines(agentId)).filter((line) => line === 'answered a message').length;
    await until('the lines are in the log', async () => ((await answered()) >= 100 ? true : undefined));
    expect(await answered()).toBe(100);
  });

  it('both refuse a key as soon as one has answered its revocation', async () => {
    for (let round = 0; round < 20; round += 1) {
      const [one, two] = [replicas.at(round), replicas.at(round + 1)];
      const key = (await one.call('POST', '/api/v1/keys', { name: 'short' }, bySession())).body;
      const use = (replica: StartedService) => replica.call('GET', '/api/v1/agents', undefined, { authorization: `Bearer ${key.raw_key}` });
      expect([(await use(two)).status, (await use(one)).status]).toEqual([200, 200]);
      expect((await one.call('DELETE', `/api/v1/keys/${key.id}`, undefined, bySession())).status).toBe(204);
      expect([(await use(two)).status, (await use(one)).status]).toEqual([401, 401]);
    }
  });

  it('show a caller its own writes at the other replica, without any header', async () => {
    const agentId = replicas.firstRun.agent_id;
    for (let round = 0; round < 50; round += 1) {
      const description = `round ${round}`;
      expect((await replicas.at(round).call('PATCH', `/api/v1/agents/${agentId}`, { description })).status).toBe(200);
      const read = await replicas.at(round + 1).call('GET', `/api/v1/agents/${agentId}`);
      expect(read.body).toMatchObject({ description });
    }
  });

  it('perform a request once that both get with one Idempotency-Key or one external id', async () => {
    const undeployed = { image: 'docker', image_name: 'busybox:1', auto_deploy: false };
    for (let round = 0; round < 5; round += 1) {
      const headers = { 'idempotency-key': `both ${round}`.replace(' ', '-') };
      const once = () =>
        Promise.all(replicas.all.map((each) => each.call('POST', '/api/v1/provision', { name: 'once', ...undeployed }, headers)));
      const answers = [...(await once()), ...(await once())];
      const made = answers.filter(({ status }) => status < 300).map(({ body }) => body.agent_id);
      expect(new Set(made).size).toBe(1);
      const refused = answers.filter(({ status }) => status >= 300).map(({ body }) => body.code);
      expect(refused.filter((code) => code !== 'idempotency_in_progress')).toEqual([]);
      const body = { name: 'named', external_id: `user-${round}`, ...undeployed };
      const named = await Promise.all(replicas.all.map((each) => each.call('POST', '/api/v1/provision', body)));
      expect(new Set(named.map(({ body: { agent_id } }) => agent_id)).size).toBe(1);
    }
    const { body } = await replicas.at(1).call('GET', '/api/v1/agents?limit=200');
    expect(body.filter(({ name }: { name: string }) => name === 'once')).toHaveLength(5);
    expect(body.filter(({ name }: { name: string }) => name === 'named')).toHaveLength(5);
  });

  it('notify callers that wait at one of changes made at the other', async () => {
    const agentId = await agent('awaited');
    const gone = new AbortController();
    const stream = await fetch(`${replicas.at(1).firstRun.url}/api/v1/agents/${agentId}/logs`, {
      headers: { authorization: `Bearer ${replicas.firstRun.api_key}`, accept: 'text/event-stream' },
      signal: gone.signal,
    });
    let heard = '';
    const reading = (async () => {
      for await (const chunk of stream.body ?? []) heard += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    const waiting = replicas.at(1).call('GET', `/api/v1/agents/${agentId}/wait?status=sleeping&timeout=30`);
    await replicas.at(0).call('POST', `/api/agents/${agentId}/chat`, { message: 'say something' });
    await until('the line is heard', () => (heard.includes('answered a message') ? true : undefined));
    gone.abort();
    await reading;
    await replicas.at(0).call('POST', `/api/v1/agents/${agentId}/sleep`);
    expect((await waiting).status).toBe(200);
  });

  it('each return a whole streamed reply, whichever replica delivers the message', async () => {
    const agentId = await agent('streamed');
    const authorization = `Bearer ${replicas.firstRun.api_key}`;
    const streamed = async (index: number) => {
      const response = await fetch(`${replicas.at(index).firstRun.url}/api/agents/${agentId}/chat`, {
        method: 'POST',
        headers: { authorization, accept: 'text/event-stream', 'content-type': 'application/json' },
        body: JSON.stringify({ message: `message ${index}` }),
      });
      const events = [...(await response.text()).matchAll(/^event: (\w+)\ndata: (.*)$/gm)];
      return { last: events.at(-1)?.[1], data: JSON.parse(events.at(-1)?.[2] ?? '{}') };
    };
    // Each message starts a conversation, and the leases of the conversations are spread over both replicas.
    const replies = await Promise.all(Array.from({ length: 16 }, (_, index) => streamed(index)));
    replies.forEach(({ last, data }, index) => {
      expect(last).toBe('reply');
      expect(data.response).toContain(`message ${index} `);
    });
  });

  it('share the limit of login attempts', async () => {
    const tries = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        replicas.at(index).call('POST', '/api/auth/login', { email: 'nobody@example.org', password: 'wrong-password' }),
      ),
    );
    expect(tries.filter(({ status }) => status === 401).length).toBeLessThanOrEqual(10);
    expect(tries.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(6);
  });

  it('share the budget of an agent’s webhooks: they accept thirty of forty in a minute', async () => {
    const agentId = await agent('hooked');
    const { token } = (await replicas.at(0).call('GET', `/api/webhooks/${agentId}/token`)).body;
    const invoke = (index: number) =>
      replicas.at(index).call('POST', `/api/webhooks/${agentId}`, { index }, { 'x-service-webhook-token': token });
    const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => invoke(index)));
    const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([...Array.from({ length: 30 }, () => 202), ...Array.from({ length: 10 }, () => 429)]);
    for (const { status, headers } of answers) if (status === 429) expect(headers.get('retry-after')).toMatch(/^[1-9]\d?$/);
    expect((await invoke(0)).status).toBe(429);
    expect((await invoke(1)).status).toBe(429);
    const ended = () => replicas.at(1).call('GET', `/api/agents/${agentId}/deliveries?status=delivered`);
    await until('all are delivered', async () => ((await ended()).body.length === 30 ? true : undefined));
  });

  it('hand over their work at once when one is stopped', async () => {
    const agentId = await agent('handed over');
    for (const stopped of replicas.all) {
      await stopped.stop();
      const other = replicas.all.find((each) => each !== stopped) as StartedService;
      const since = performance.now();
      expect((await other.call('POST', `/api/agents/${agentId}/chat`, { message: 'still there?' })).status).toBe(200);
      // The agent answers sooner than the leases of the stopped service would have expired.
      expect(performance.now() - since).toBeLessThan(10_000);
      await stopped.start();
    }
  });
});

describe('a service that joins others from another machine', () => {
  it('requires only the database and the master key, and no file', async () => {
    const replicas = await Replicas.start(1, 'docker');
    const dataDir = await mkdtemp(join(tmpdir(), 'mooring-guest-'));
    const start = (environment: Record<string, string> = {}, runtime: 'docker' | 'local' = 'docker') =>
      StartedService.start(replicaOptions(replicas.database.url, runtime, { dataDir, environment, caller: replicas.firstRun }));
    try {
      await expect(start({ MOORING_MASTER_KEY: 'cd'.repeat(32) })).rejects.toThrow('the master key is not the one');
      await expect(start({}, 'local')).rejects.toThrow('the same MOORING_DATA_DIR');
      const guest = await start();
      replicas.all.push(guest);
      await replicas.at(0).stop();
      const made = await guest.call('POST', '/api/agents', { name: 'guest', templateId: 'hello' }, { prefer: 'wait=60' });
      expect(made.body).toMatchObject({ status: 'active' });
      await replicas.at(0).start();
      await guest.stop();
      const answer = await replicas.at(0).call('POST', `/api/agents/${made.body.agent_id}/chat`, { message: 'hello' });
      expect(answer.status).toBe(200);
      expect(await seenContainers(made.body.agent_id)).toHaveLength(1);
    } finally {
      await replicas.dispose();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

/** Returns the number of requests that the agent counts in its response. */
function countIn(response: string): number {
  return Number(/been asked (\d+) times/.exec(response)?.[1] ?? 1);
}

/** Suspends one replica after the other for longer than a lease lasts, and meanwhile kills the next one and starts it again. */
async function disturb(replicas: Replicas, signal: AbortSignal): Promise<{ kills: number; suspensions: number }> {
  const done = { kills: 0, suspensions: 0 };
  for (let round = 0; !signal.aborted; round += 1) {
    const [suspended, killed] = [replicas.at(round), replicas.at(round + 1)];
    suspended.pause();
    done.suspensions += 1;
    const lasts = span(SUSPENDED_MS);
    await span(randomInt(500, 4_000));
    await killed.kill();
    done.kills += 1;
    await span(randomInt(100, 3_000));
    await killed.start();
    await lasts;
    suspended.resume();
    await span(randomInt(500, 2_500));
  }
  return done;
}

describe('three services under load, of which one is always suspended and another one killed', () => {
  let replicas: Replicas;
  let log: SeenLog;
  const users: ReplicaUser[] = [];
  let done = { kills: 0, suspensions: 0 };

  beforeAll(
    async () => {
      replicas = await Replicas.start(3, 'docker', { MOORING_DEEP_SLEEP_AFTER: '3' });
      log = await SeenLog.open(replicas.database.url);
      users.push(
        ...Array.from(
          { length: USERS },
          (_, index) => new ReplicaUser(replicas.all, `user ${index}`, index % 2 === 0 ? 30 : 300, index < USERS / 2),
        ),
      );
      const over = AbortSignal.timeout(SOAK_SECONDS * 1_000);
      [done] = await Promise.all([disturb(replicas, over), ...users.map((user) => user.work(over))]);
      await until(
        'every agent settles',
        async () => {
          const { body } = await replicas.at(0).call<{ status: string }[]>('GET', '/api/v1/agents?limit=200');
          return body.every(({ status }) => !inTransit.includes(status)) ? true : undefined;
        },
        { everyMs: 250 },
      );
      await log.caughtUp();
    },
    (SOAK_SECONDS + 180) * 1_000,
  );

  afterAll(async () => {
    const sum = (count: (user: ReplicaUser) => number) => users.reduce((total, user) => total + count(user), 0);
    const refusals = new Map<string, number>();
    for (const user of users) for (const [how, times] of user.refusals) refusals.set(how, (refusals.get(how) ?? 0) + times);
    process.stdout.write(
      `${done.kills} kills, ${done.suspensions} suspensions, ${sum((user) => user.made.length)} agents, ${sum((user) => user.replies.length)} replies, ` +
        `${sum((user) => user.changes.length)} changes, ${sum((user) => user.deployments.length)} deployments; ${JSON.stringify(Object.fromEntries(refusals))}\n`,
    );
    await log?.close();
    await replicas?.dispose();
  });

  const repliesOf = (agentId: string) => users.flatMap((user) => user.replies).filter((reply) => reply.agentId === agentId);
  const standing = () => users.flatMap(({ agentId }) => (agentId === '' ? [] : [agentId]));

  it('have one container for each agent, and none for a deleted one', async () => {
    const { body } = await replicas.at(0).call<{ agent_id: string; status: string }[]>('GET', '/api/v1/agents?limit=200');
    const wrong = async () => {
      const found: string[] = [];
      for (const agentId of standing()) {
        const { status } = body.find(({ agent_id }) => agent_id === agentId) ?? {};
        const containers = (await seenContainers(agentId)).length;
        // An agent that was stopped during a deployment has no container before it is started.
        const least = status === 'stopped' ? 0 : 1;
        if (containers < least || containers > 1) found.push(`${agentId}, which is ${status}, has ${containers}`);
      }
      for (const agentId of users.flatMap(({ gone }) => gone))
        for (const { id, state } of await seenContainers(agentId)) found.push(`${agentId}, which was deleted, has ${id}, ${state}`);
      return found;
    };
    // A replica that was suspended during a call may create a container late, which another replica then removes.
    await until('no container is missing or left over', async () => ((await wrong()).length === 0 ? true : undefined)).catch(() => 0);
    expect(await wrong()).toEqual([]);
  });

  it('have every acknowledged write in the log', async () => {
    const events = await log.events();
    const requests = new Set(events.map(({ stream, metadata }) => `${stream} ${metadata.request_id}`));
    const deployments = new Set(events.filter(({ type }) => type === 'DeploymentRequested').map(({ data }) => data.deployment_id));
    const delivered = new Set(events.filter(({ type }) => type === 'MessageDelivered').map(({ data }) => data.message_id));
    const streams = new Set(events.map(({ stream }) => stream));
    for (const user of users) {
      expect(user.made.filter((agentId) => !streams.has(`agent-${agentId}`))).toEqual([]);
      expect(user.changes.filter(({ agentId, requestId }) => !requests.has(`agent-${agentId} ${requestId}`))).toEqual([]);
      expect(user.deployments.filter(({ deploymentId }) => !deployments.has(deploymentId))).toEqual([]);
      expect(user.replies.filter(({ messageId }) => !delivered.has(messageId))).toEqual([]);
    }
  });

  it('fail only operations that the kill interrupted', async () => {
    const failures = ['ContainerExited', 'DeploymentFailed', 'AgentFailed'];
    expect((await log.events()).filter(({ type }) => failures.includes(type)).map(({ type, data }) => [type, data])).toEqual([]);
  });

  it('return to each message its own reply', () => {
    const replies = users.flatMap((user) => user.replies);
    expect(replies.length).toBeGreaterThan(0);
    expect(replies.filter(({ text, response }) => !response.includes(text))).toEqual([]);
  });

  it('skip no event in any read model', async () => {
    expect(new Set(Object.values(await log.differences()))).toEqual(new Set([0]));
  });

  it('deliver no message twice whose delivery was not disturbed, and lose no line of the agents', async () => {
    const events = await log.events();
    const failed = events.filter(({ type }) => type === 'DeliveryFailed').length;
    const deployed = new Set(events.flatMap(({ type, stream }) => (type === 'DeploymentSucceeded' ? [stream] : [])));
    let again = 0;
    for (const agentId of standing().filter((id) => deployed.has(`agent-${id}`))) {
      // The agent counts each message once, and prints a line each time that one is delivered.
      await replicas.at(0).call('POST', `/api/v1/agents/${agentId}/start`, undefined, { prefer: 'wait=60' });
      const last = await replicas.at(1).call('POST', `/api/agents/${agentId}/chat`, { message: 'How often?' });
      expect(last).toMatchObject({ status: 200 });
      const counts = [...repliesOf(agentId).map(({ response }) => countIn(response)), countIn(last.body.response)];
      expect(new Set(counts).size).toBe(counts.length);
      const known = Math.max(...counts);
      const answered = async () => (await log.lines(agentId)).filter((line) => line === 'answered a message').length;
      const handed = await until('the lines are in the log', async () => {
        const lines = await answered();
        return lines >= known ? lines : undefined;
      });
      again += handed - known;
    }
    process.stdout.write(`${again} of the messages were handed over again; ${failed} deliveries failed\n`);
    expect(again).toBeLessThanOrEqual(failed + USERS * (done.kills + done.suspensions));
  });
});
