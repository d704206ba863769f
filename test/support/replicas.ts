import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import Dockerode from 'dockerode';

import { removeDataDir } from './data-dir.ts';
import { removeInstance } from './images.ts';
import { OutsidePostgres } from './outside-postgres.ts';
import { StartedService, type FirstRun, type ServiceOptions } from './started-service.ts';

export const masterKey = 'ab'.repeat(32);

/** Several services that share one database, one engine and one data folder. */
export class Replicas {
  private constructor(
    readonly database: OutsidePostgres,
    readonly dataDir: string,
    readonly runtime: 'docker' | 'local',
    readonly all: StartedService[],
  ) {}

  /** Starts the services at the same moment, on an empty database. */
  static async start(count: number, runtime: 'docker' | 'local', environment: Record<string, string> = {}): Promise<Replicas> {
    const database = await OutsidePostgres.start();
    const dataDir = await mkdtemp(join(tmpdir(), 'mooring-replicas-'));
    const options = replicaOptions(database.url, runtime, { dataDir, environment });
    const replicas = new Replicas(database, dataDir, runtime, []);
    const started = await Promise.allSettled(Array.from({ length: count }, () => StartedService.start(options)));
    for (const each of started) if (each.status === 'fulfilled') replicas.all.push(each.value);
    const failed = started.find((each) => each.status === 'rejected');
    if (failed === undefined) return replicas;
    await replicas.dispose();
    throw failed.reason;
  }

  get firstRun(): FirstRun {
    return this.at(0).firstRun;
  }

  at(index: number): StartedService {
    const replica = this.all[index % this.all.length];
    if (replica === undefined) throw new Error('there are replicas');
    return replica;
  }

  /** Ends all services, and leaves nothing on the engine or on the disk. */
  async dispose(): Promise<void> {
    for (const replica of this.all) replica.resume();
    const [last] = this.all;
    if (last !== undefined) {
      if (!last.running) await last.start();
      const agents = await last.call<{ agent_id: string }[]>('GET', '/api/v1/agents?limit=200');
      await Promise.all(agents.body.map(({ agent_id }) => last.call('DELETE', `/api/v1/agents/${agent_id}`)));
    }
    await Promise.all(this.all.map((replica) => replica.stop()));
    for (const replica of this.all) replica.forget();
    if (this.runtime === 'docker') await removeInstance(new Dockerode(), await instanceOf(this.dataDir));
    await removeDataDir(this.dataDir);
    await this.database.stop();
  }
}

export async function instanceOf(dataDir: string): Promise<string> {
  return (await readFile(join(dataDir, 'instance-id'), 'utf8')).trim();
}

export function replicaOptions(
  url: string,
  runtime: 'docker' | 'local',
  { environment = {}, ...others }: Partial<ServiceOptions> = {},
): ServiceOptions {
  return { runtime, ...others, environment: { DATABASE_URL: url, MOORING_MASTER_KEY: masterKey, ...environment } };
}
