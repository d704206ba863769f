import { operate } from '../support/log.ts';
import { NextVersion } from '../support/next-version.ts';
import { OutsidePostgres } from '../support/outside-postgres.ts';
import { replicaOptions } from '../support/replicas.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

const RAISED = ['agents', 'deployments', 'log_journal'];

describe('An upgrade to a program whose read models are of another version', () => {
  let database: OutsidePostgres;
  let old: StartedService;
  let next: StartedService;
  let agentIds: string[];
  let nextVersion: NextVersion;

  beforeAll(async () => {
    nextVersion = await NextVersion.make(RAISED);
    database = await OutsidePostgres.start();
    old = await StartedService.start(replicaOptions(database.url, 'local'));
    agentIds = [];
    for (const name of ['one', 'two', 'three']) {
      const made = await old.call('POST', '/api/agents', { name, templateId: 'hello' }, { prefer: 'wait=60' });
      agentIds.push(made.body.agent_id as string);
    }
  });

  afterAll(async () => {
    await next?.stop();
    await old?.dispose();
    await database?.stop();
    await nextVersion?.remove();
  });

  const startNext = () =>
    StartedService.start(
      replicaOptions(database.url, 'local', {
        dataDir: old.dataDir,
        caller: old.firstRun,
        entry: nextVersion.entry,
      }),
    );
  const ready = async (service: StartedService) => (await fetch(`${service.firstRun.url}/ready`)).status === 200 || undefined;

  /** Returns the responses that readers and writers got until the work was done, and the number of successful writes of each agent. */
  async function underLoad(service: StartedService, work: () => Promise<void>) {
    const end = new AbortController();
    const answers: string[] = [];
    const written = new Map<string, number>();
    const callers = agentIds.flatMap((agentId) => [
      async () => {
        const { status } = await service.call('GET', `/api/v1/agents/${agentId}`);
        answers.push(`GET ${status}`);
      },
      async () => {
        const description = `written at ${performance.now()}`;
        const { status, body } = await service.call('PATCH', `/api/v1/agents/${agentId}`, { description });
        answers.push(`PATCH ${status}`);
        if (status !== 200) return;
        written.set(agentId, (written.get(agentId) ?? 0) + 1);
        expect(body).toMatchObject({ agent_id: agentId, description });
      },
    ]);
    const running = Promise.all(
      callers.map(async (call) => {
        while (!end.signal.aborted) await call();
      }),
    );
    await Promise.all([work().finally(() => end.abort()), running]);
    return { answers: new Set(answers), written };
  }

  /** Checks that all services answer the same, and that each one's rows are those of its own version and of a fresh fold. */
  async function expectRight(services: StartedService[]): Promise<void> {
    const { email, password } = old.firstRun;
    for (const agentId of agentIds)
      for (const path of ['', '/deployments', '/logs']) {
        const answers = await Promise.all(services.map((service) => service.call('GET', `/api/v1/agents/${agentId}${path}`)));
        expect(answers.map(({ status }) => status)).toEqual(services.map(() => 200));
        for (const answer of answers) expect(answer.body).toEqual(answers[0]?.body);
      }
    for (const service of services) {
      const { body } = await service.call('POST', '/api/auth/login', { email, password });
      for (const name of RAISED) {
        const headers = { authorization: `Bearer ${body.session_token}` };
        const compared = await service.call('POST', `/api/admin/projections/${name}/verify`, undefined, headers);
        expect(compared.body).toMatchObject({ equal: true });
      }
    }
  }

  it('lets the older program serve from its own tables without a failure, both while the newer one fills others and afterwards', async () => {
    const { answers } = await underLoad(old, async () => {
      next = await startNext();
      await until('the newer program is ready', () => ready(next));
    });
    expect([...answers].toSorted()).toEqual(['GET 200', 'PATCH 200']);
    await expectRight([old, next]);
    const tables = await operate(database.url, `select tablename from pg_tables where tablename ~ '^agents_v[0-9]+$'`);
    expect(tables).toHaveLength(2);
  });

  it('answers every write that it appended, even alone and after a kill, and is ready when all tables are filled', async () => {
    await next.stop();
    await old.stop();
    for (const { name } of await operate(
      database.url,
      `select table_name as name from projections p where exists (select from projections o where o.name = p.name and o.version < p.version)`,
    )) {
      await operate(database.url, `drop table "${String(name)}"`);
      await operate(database.url, 'delete from projection_checkpoints where table_name = $1', [name]);
      await operate(database.url, 'delete from projections where table_name = $1', [name]);
    }
    next = await startNext();
    await next.kill();
    const counted = `select count(*)::int as count from es_event where stream = $1 and type = 'AgentConfigured'`;
    const before = await Promise.all(agentIds.map((agentId) => operate(database.url, counted, [`agent-${agentId}`])));
    await next.start();
    const { written } = await underLoad(next, async () => {
      await until('it is ready', () => ready(next));
    });
    for (const [index, agentId] of agentIds.entries()) {
      const [now] = await operate(database.url, counted, [`agent-${agentId}`]);
      expect(Number(now?.count) - Number(before[index]?.[0]?.count)).toBe(written.get(agentId) ?? 0);
    }
    await expectRight([next]);
  });
});
