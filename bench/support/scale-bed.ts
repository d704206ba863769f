import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import pg from 'pg';

import { FakeDockerEngine, type FakeEngineOptions } from '../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { removeDataDir } from '../../test/support/data-dir.ts';
import { OutsidePostgres } from '../../test/support/outside-postgres.ts';
import { masterKey } from '../../test/support/replicas.ts';
import { StartedService, type ServiceOptions } from '../../test/support/started-service.ts';
import { until } from '../../test/support/until.ts';
import { Caller } from './caller.ts';
import { REAL_IMAGE, removeReal } from './real-agents.ts';

/** An engine, wherever it runs. */
export interface RunningEngine {
  environment: Record<string, string>;
  /** False if none of its containers is the machine's own. */
  onMachine?: boolean;
  close(): Promise<void>;
}

export interface BedOptions {
  engine?: FakeEngineOptions;
  /** An engine that runs elsewhere, instead of one in this process. It may pass containers on to the real engine. */
  outside?: RunningEngine;
  environment?: Record<string, string>;
  nodeOptions?: string[];
  /** The entry file of the service, if it is not the one that was built last. */
  entry?: string | undefined;
  /** The number of services that share the database. */
  replicas?: number;
}

const SEATS = 100_000;
const PASSWORD = 'benchmark-password';
const READY_MS = 600_000;

/** A database, a fake engine, and one or more services on them, created for one measurement and removed after it. */
export class ScaleBed {
  private static readonly open = new Set<ScaleBed>();
  private readonly callers: Caller[] = [];
  private accounts = 0;

  private constructor(
    readonly database: OutsidePostgres,
    private readonly runningEngine: RunningEngine,
    readonly dataDir: string,
    readonly services: StartedService[],
    private readonly hasReal: boolean,
  ) {}

  /** Removes all processes and containers of an interrupted benchmark. */
  static async disposeAll(): Promise<void> {
    await Promise.all([...ScaleBed.open].map((bed) => bed.dispose()));
  }

  static async start(options: BedOptions = {}): Promise<ScaleBed> {
    const database = await OutsidePostgres.start();
    const engine = options.outside ?? (await FakeDockerEngine.start(options.engine));
    const dataDir = await mkdtemp(join(tmpdir(), 'mooring-scale-'));
    const hasReal = options.outside === undefined ? options.engine?.real !== undefined : options.outside.onMachine !== false;
    const bed = new ScaleBed(database, engine, dataDir, [], hasReal);
    ScaleBed.open.add(bed);
    try {
      for (let n = 0; n < (options.replicas ?? 1); n++) bed.services.push(await StartedService.start(bed.serviceOptions(options, n)));
      const { body } = await bed.admin('GET', '/api/admin/accounts');
      await bed.assignSeats(body[0].account_id);
    } catch (error) {
      await bed.dispose();
      throw error;
    }
    return bed;
  }

  private serviceOptions({ environment, nodeOptions, entry }: BedOptions, n: number): ServiceOptions {
    return {
      runtime: 'docker',
      dataDir: this.dataDir,
      nodeOptions,
      ...(entry === undefined ? {} : { entry }),
      environment: {
        ...this.runningEngine.environment,
        DATABASE_URL: this.database.url,
        MOORING_MASTER_KEY: masterKey,
        MOORING_LOG_LEVEL: 'warn',
        // The fake engine has no volumes that could be measured.
        MOORING_VOLUME_MAX_MB: '0',
        MOORING_SHARED_IMAGES: `bench/agent,${REAL_IMAGE}`,
        BENCH_REPLICA: String(n),
        ...environment,
      },
    };
  }

  /** The engine in this process. */
  get engine(): FakeDockerEngine {
    if (!(this.runningEngine instanceof FakeDockerEngine)) throw new Error('the engine runs elsewhere');
    return this.runningEngine;
  }

  get service(): StartedService {
    return this.replica(0);
  }

  replica(n: number): StartedService {
    const service = this.services[n];
    if (service === undefined) throw new Error(`there is no replica ${n}`);
    return service;
  }

  /** Returns a caller with the first account's key, at a replica. */
  owner(n = 0): Caller {
    return this.caller(this.replica(n).firstRun.api_key, n);
  }

  caller(key: string, n = 0): Caller {
    const caller = new Caller(() => this.replica(n).firstRun.url, key);
    this.callers.push(caller);
    return caller;
  }

  /** Makes an account with seats, and returns its id and a key. */
  async account(): Promise<{ id: string; key: string }> {
    const email = `bench-${(this.accounts += 1)}@example.com`;
    const { body } = await this.admin('POST', '/api/admin/accounts', { email, password: PASSWORD, name: email });
    await this.assignSeats(body.account_id);
    const session = await this.signIn(email, PASSWORD);
    const key = await this.service.call('POST', '/api/v1/keys', { name: 'bench' }, { authorization: `Bearer ${session}` });
    return { id: body.account_id, key: key.body.raw_key };
  }

  adminSession(): Promise<string> {
    const { email, password } = this.service.firstRun;
    return this.signIn(email, password);
  }

  async admin(method: string, path: string, body?: unknown) {
    const authorization = `Bearer ${await this.adminSession()}`;
    const answer = await this.service.call(method, path, body, { authorization });
    if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer;
  }

  private async assignSeats(accountId: string): Promise<void> {
    await this.admin('PUT', `/api/admin/accounts/${accountId}/plan`, { plan: 'bench', seats: SEATS, payment_method: true });
  }

  private async signIn(email: string, password: string): Promise<string> {
    return (await this.service.call('POST', '/api/auth/login', { email, password })).body.session_token;
  }

  async instance(): Promise<string> {
    return (await readFile(join(this.dataDir, 'instance-id'), 'utf8')).trim();
  }

  /** Resolves when the service reports that it is ready. */
  async ready(n = 0): Promise<void> {
    const answers = async () => (await fetch(`${this.replica(n).firstRun.url}/ready`).catch(() => null))?.status === 200;
    await until('the service is ready', async () => ((await answers()) ? true : undefined), { timeoutMs: READY_MS, everyMs: 20 });
  }

  async query<Row extends pg.QueryResultRow>(text: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.database.url });
    await client.connect();
    try {
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  }

  async dispose(): Promise<void> {
    ScaleBed.open.delete(this);
    for (const caller of this.callers) caller.close();
    // The agents' containers end with the engine, so they need not be deleted one by one.
    await Promise.all(this.services.map((service) => (service.resume(), service.stop())));
    await this.runningEngine.close();
    if (this.hasReal) await removeReal(await this.instance());
    await removeDataDir(this.dataDir);
    await this.database.stop();
  }
}

/** Makes an agent of the image, waits until it is active, and returns its id. */
export async function makeAgent(caller: Caller, image: string, others: object = {}): Promise<string> {
  const { body } = await caller.done('POST', '/api/v1/provision', agentBody(image, others), { prefer: 'wait=120' });
  if (body.status !== 'active') throw new Error(`the agent is ${body.status}: ${JSON.stringify(body)}`);
  return body.agent_id;
}

/** Makes an agent like `makeAgent`, but does not wait for it. */
export async function orderAgent(caller: Caller, image: string): Promise<string> {
  return (await caller.done('POST', '/api/v1/provision', agentBody(image, {}))).body.agent_id;
}

function agentBody(image: string, others: object): object {
  return { name: 'bench', image: 'docker', image_name: image, serverless: true, idle_ttl_seconds: 0, ...others };
}

export interface Timed {
  ms: number;
  status: number;
}

/** Measures one chat, whether it succeeds or fails. */
export async function timedChat(caller: Caller, agentId: string, message = 'hello'): Promise<Timed> {
  const { ms, status } = await caller.call('POST', `/api/agents/${agentId}/chat`, { message });
  return { ms, status };
}

/** Puts the agent to sleep, and then measures the chat that wakes it. */
export async function timedWake(caller: Caller, agentId: string): Promise<Timed> {
  await caller.call('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=120' });
  return timedChat(caller, agentId);
}

/** Does `work` for every item, at most `width` at a time. */
export async function together<T, R>(items: readonly T[], width: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  let next = 0;
  const lane = async () => {
    for (let at = next++; at < items.length; at = next++) answers[at] = await work(items[at] as T);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  return answers;
}
