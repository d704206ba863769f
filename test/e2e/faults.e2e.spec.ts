import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { textContext } from '../../src/features/messages/conversations/conversations.service.ts';
import { DatabaseKeyring } from '../../src/crypto/database-keyring.ts';
import { ShredLedger } from '../../src/crypto/shred-ledger.ts';
import { MasterKeys } from '../../src/crypto/master-keys.ts';
import { loadMasterKey } from '../../src/crypto/master-key.ts';
import type { Sealed } from '../../src/crypto/keyring.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { readPostmaster } from '../../src/postgres/embedded/postgres-process.ts';
import { operate } from '../support/log.ts';
import { PrivateEngine } from '../support/private-engine.ts';
import { StartedService } from '../support/started-service.ts';
import { clusterOf, databaseOf, dump } from '../support/stored-texts.ts';
import { span, until } from '../support/until.ts';

async function agent(service: StartedService, name: string): Promise<string> {
  const made = await service.call('POST', '/api/agents', { name, templateId: 'hello' }, { prefer: 'wait=60' });
  expect(made.body).toMatchObject({ status: 'active' });
  return made.body.agent_id;
}

const statusOf = async (service: StartedService, agentId: string): Promise<string> => {
  const { status, body } = await service.call('GET', `/api/v1/agents/${agentId}`);
  return status === 404 ? 'gone' : body.status;
};
const becomes = (service: StartedService, agentId: string, wanted: string) =>
  until(`the agent is ${wanted}`, async () => ((await statusOf(service, agentId)) === wanted ? true : undefined), { everyMs: 100 });
const chat = (service: StartedService, agentId: string, message: string) =>
  service.call('POST', `/api/agents/${agentId}/chat`, { message });

/** Returns the texts of all files below a folder, except those of PostgreSQL. */
async function textsBelow(folder: string): Promise<[string, string][]> {
  const texts: [string, string][] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('postgres')) continue;
    texts.push([path, '']);
    if (entry.isDirectory()) texts.push(...(await textsBelow(path)));
    else if (entry.isFile()) texts.push([path, (await readFile(path)).toString('latin1')]);
  }
  return texts;
}

describe('a service on the local runtime', () => {
  const password = 'canary-of-a-password';
  let service: StartedService;

  beforeAll(async () => {
    service = await StartedService.start({ runtime: 'local', environment: { MOORING_ADMIN_PASSWORD: password } });
  });

  afterAll(() => service?.dispose());

  it('makes an agent’s messages unreadable for good when it is deleted', async () => {
    const agentId = await agent(service, 'forgotten');
    const { body } = await chat(service, agentId, 'remember nothing');
    const url = await databaseOf(service);
    const stream = `conversation-${body.conversation_id}`;
    const sealed = async () =>
      (
        await operate(
          url,
          `select type, data from es_event where stream = $1 and type in ('MessageAccepted', 'MessageDelivered') order by version`,
          [stream],
        )
      ).map(({ type, data }) => {
        const { message_id, text, reply } = data as { message_id: string; text?: Sealed; reply?: Sealed };
        return { context: textContext(message_id, type === 'MessageAccepted' ? 'text' : 'reply'), value: (text ?? reply) as Sealed };
      });
    const database = await openDatabase({ url });
    try {
      const opened = async () => {
        const key = await loadMasterKey({ masterKey: null, dataDir: service.dataDir }, () => undefined);
        const keyring = new DatabaseKeyring(database, new MasterKeys(database, key, null), ShredLedger.in(service.dataDir));
        const events = await sealed();
        expect(events).toHaveLength(2);
        return Promise.all(events.map(({ context, value }) => keyring.open(agentId, context, value)));
      };
      expect(await opened()).toEqual(['remember nothing', body.response]);
      expect((await service.call('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
      expect(await opened()).toEqual([null, null]);
      const keys = await operate(url, 'select wrapped from data_keys where subject = $1', [agentId]);
      expect(keys.filter(({ wrapped }) => wrapped !== null)).toEqual([]);
    } finally {
      await database.close();
    }
    const naming = (await textsBelow(service.dataDir)).filter(([path, text]) => path.includes(agentId) || text.includes(agentId));
    // Only the ledger that prevents a backup from restoring the agent's keys contains the agent's id.
    expect(naming.map(([path]) => path)).toEqual([ShredLedger.in(service.dataDir).file]);
  });

  it('shows a secret in no table, log line, process list or error', async () => {
    const secret = 'canary-of-a-secret';
    const agentId = await agent(service, 'secretive');
    const set = await service.call('POST', `/api/v1/agents/${agentId}/env`, { key: 'TOKEN', value: secret, is_secret: true });
    expect(set.status).toBeLessThan(300);
    expect((await service.call('POST', `/api/v1/agents/${agentId}/restart`, undefined, { prefer: 'wait=30' })).body.status).toBe('active');
    const errors = [
      await service.call('POST', `/api/v1/agents/${agentId}/env`, { key: 'not a name', value: secret, is_secret: true }),
      await service.call('POST', `/api/v1/agents/${agentId}/env`, { key: 'TOKEN', value: { secret }, is_secret: true }),
      await service.call('POST', '/api/auth/login', { email: service.firstRun.email, password: `${password}x` }),
      await service.call('GET', '/api/v1/agents', undefined, { authorization: `Bearer ${service.firstRun.api_key}x` }),
    ];
    const canaries = [secret, password, service.firstRun.api_key];
    const tell = (where: string, text: string) =>
      canaries.flatMap((canary, index) => (text.includes(canary) ? [`${where}: ${index}`] : []));
    for (const { status, body } of errors) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(tell('error', JSON.stringify(body))).toEqual([]);
    }
    expect((await dump(await databaseOf(service))).flatMap(([table, text]) => tell(table, text))).toEqual([]);
    // The first start prints the credentials that it created once, outside its JSON log lines, but not the password that it was given.
    expect(service.output).toContain(service.firstRun.api_key);
    expect(service.output).not.toContain(password);
    const lines = service.output.split('\n').filter((line) => line.startsWith('{'));
    expect(lines.length).toBeGreaterThan(5);
    expect(lines.flatMap((line) => tell(line, line))).toEqual([]);
    const processes = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
    for (const pid of processes) {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      expect(tell(`process ${pid}`, command)).toEqual([]);
    }
  });

  it('answers 503 after its database was killed, until that is back', async () => {
    const agentId = await agent(service, 'survivor');
    const { body } = await chat(service, agentId, 'before');
    const { pid } = service;
    process.kill(readPostmaster(await clusterOf(service))?.pid ?? 0, 'SIGKILL');
    const seen = new Set<string>();
    await until(
      'reads and writes are answered again',
      async () => {
        const answers = await Promise.all([
          service.call('GET', `/api/v1/agents/${agentId}`),
          service.call('PATCH', `/api/v1/agents/${agentId}`, { description: `described ${seen.size}` }),
        ]);
        for (const { status, body: said, headers } of answers) {
          seen.add(`${status} ${status < 300 ? '' : said.code}`.trim());
          if (status >= 300) expect(headers.get('content-type')).toContain('application/problem+json');
        }
        return answers.every(({ status }) => status === 200) && seen.size > 1 ? true : undefined;
      },
      { everyMs: 50 },
    ).catch((error: Error) => {
      throw new Error(`${error.message}; answers were ${[...seen].join(', ')}; the service printed: ${service.output.slice(-4_000)}`);
    });
    expect([...seen].sort()).toEqual(['200', '503 event_store_unavailable']);
    const thread = `/api/agents/${agentId}/conversations/${body.conversation_id}/messages`;
    expect((await service.call('GET', thread)).body).toMatchObject([{ text: 'before' }, { text: body.response }]);
    expect((await chat(service, agentId, 'after')).status).toBe(200);
    expect([service.running, service.pid]).toEqual([true, pid]);
  });
});

/** Returns the processor time that a process has used, in seconds. */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ').pop()?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Returns the share of a core that the process uses over that time, in per cent. */
async function shareOfCore(pid: number, milliseconds: number): Promise<number> {
  const [usedBefore, since] = [await cpuSeconds(pid), performance.now()];
  await span(milliseconds);
  return (100_000 * ((await cpuSeconds(pid)) - usedBefore)) / (performance.now() - since);
}

/** Only Linux reports a process's processor time in /proc. */
const describeWithProc = existsSync('/proc/self/stat') ? describe : () => undefined;

describeWithProc('a service with nothing to do', () => {
  it('writes nothing and hardly works, with twenty agents', async () => {
    const service = await StartedService.start({ runtime: 'local' });
    try {
      await Promise.all(Array.from({ length: 20 }, (_, index) => agent(service, `idler ${index}`)));
      const url = await databaseOf(service);
      const heads = () => operate(url, 'select (select max(position) from es_event) core, (select max(position) from es_log_event) log');
      // The last events of the starts are in the log when nothing was written for a while.
      let last = JSON.stringify(await heads());
      await until('nothing more is written', async () => {
        const before = last;
        await span(2_000);
        last = JSON.stringify(await heads());
        return before === last ? true : undefined;
      });
      // After-effects of the start (a garbage collection, code that is being optimised) may fall into the first measurements, but not into
      // all.
      const shares: number[] = [];
      while (shares.length < 6 && !((shares.at(-1) ?? 100) < 3)) shares.push(await shareOfCore(service.pid, 10_000));
      console.info(`idle with 20 agents: ${shares.map((share) => share.toFixed(2)).join(', ')} % of a core`);
      expect(JSON.stringify(await heads())).toBe(last);
      expect(shares.at(-1)).toBeLessThan(3);
    } finally {
      await service.dispose();
    }
  });
});

/** A port of this machine that is forwarded to a port in the engine's network. */
class Passage {
  private constructor(
    private readonly relay: ChildProcess,
    private readonly listener: Server,
    private readonly folder: string,
  ) {}

  static async open(engine: PrivateEngine, port: number): Promise<Passage> {
    const folder = await mkdtemp(join(tmpdir(), 'mooring-passage-'));
    const path = join(folder, 'listener');
    const pass = `const { connect, createServer } = require('node:net');
      createServer((from) => {
        const to = connect(${port}, '127.0.0.1');
        for (const [one, other] of [[from, to], [to, from]]) one.on('error', () => other.destroy()).pipe(other);
      }).listen(${JSON.stringify(path)});`;
    const [program = '', ...words] = engine.inside;
    const relay = spawn(program, [...words, process.execPath, '-e', pass], { stdio: 'ignore' });
    const listener = createServer((from) => {
      const to = connect(path);
      for (const [one, other] of [
        [from, to],
        [to, from],
      ] as const)
        one.on('error', () => other.destroy()).pipe(other);
    });
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    await until('the passage stands', () => (existsSync(path) ? true : undefined));
    return new Passage(relay, listener, folder);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.listener.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    const ended = once(this.relay, 'exit');
    this.relay.kill('SIGKILL');
    await ended;
    this.listener.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

describe('an engine that stops under the service', () => {
  it('does not end the service, and everything recovers without help when it is back', async () => {
    const engine = await PrivateEngine.open();
    const passage = await Passage.open(engine, 8080);
    let service: StartedService | undefined;
    try {
      await engine.start();
      const environment = { PORT: '8080', MOORING_BASE_URL: passage.url, DOCKER_HOST: `unix://${engine.socket}` };
      const running = (service = await StartedService.start({ runtime: 'docker', environment, wrapper: engine.inside }));
      const [active, sleeping, deploying, deleted] = await Promise.all(
        ['active', 'sleeping', 'deploying', 'deleted'].map((name) => agent(running, name)),
      );
      if (!active || !sleeping || !deploying || !deleted) throw new Error('there are four agents');
      await running.call('POST', `/api/agents/${sleeping}/sleep`, undefined, { prefer: 'wait=30' });
      const { pid } = running;
      await engine.stop();

      expect((await running.call('GET', '/api/v1/agents?limit=10')).body).toHaveLength(4);
      for (const path of ['', '/logs', '/history', '/env', '/deployments'])
        expect([path, (await running.call('GET', `/api/v1/agents/${active}${path}`)).status]).toEqual([path, 200]);
      const told = async (method: string, path: string) => {
        const { status, body } = await running.call(method, path, undefined, { prefer: 'wait=0' });
        expect([202, 503]).toContain(status);
        if (status === 503) expect(body.code).toBe('runtime_unavailable');
        return status;
      };
      const asked = [await told('POST', `/api/v1/agents/${deploying}/deploy`), await told('DELETE', `/api/v1/agents/${deleted}`)];
      expect(asked).toEqual([202, 202]);

      await engine.start();
      for (const agentId of [active, deploying]) await becomes(running, agentId, 'active');
      await becomes(running, deleted, 'gone');
      expect((await chat(running, active, 'well?')).status).toBe(200);
      expect((await chat(running, deploying, 'well?')).status).toBe(200);
      expect((await chat(running, sleeping, 'good morning')).status).toBe(200);
      const label = { filters: { label: [`mooring.agent=${deleted}`] } };
      expect(await engine.docker.listContainers({ all: true, ...label })).toEqual([]);
      expect((await engine.docker.listVolumes(label)).Volumes ?? []).toEqual([]);
      for (const agentId of [active, sleeping, deploying]) {
        const filters = { label: [`mooring.agent=${agentId}`] };
        // A deployment's older container is removed after its success.
        await until('one container is left', async () =>
          (await engine.docker.listContainers({ all: true, filters })).length === 1 ? true : undefined,
        );
      }
      expect([running.running, running.pid]).toEqual([true, pid]);
    } finally {
      await service?.dispose();
      await passage.close();
      await engine.close();
    }
  });
});
