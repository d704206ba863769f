import { setTimeout as wait } from 'node:timers/promises';

import { keyIdOf, newDataKey, wrapDataKey } from '../src/crypto/envelope.ts';
import { operate } from '../test/support/log.ts';
import { removeDataDir } from '../test/support/data-dir.ts';
import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { masterKey, replicaOptions } from '../test/support/replicas.ts';
import { StartedService } from '../test/support/started-service.ts';
import { Caller } from './support/caller.ts';
import { cpuMs, machineLoad, memoryMb, percentile, rounded } from './support/figures.ts';

const DATA_KEYS = Number(process.env.BENCH_DATA_KEYS ?? 100_000);
const AT_A_TIME = 5_000;
const CALLERS = 8;
const BASELINE_MS = Number(process.env.BENCH_BASELINE_MS ?? 10_000);
const WARM_UP_MS = 5_000;
const PATIENCE_MS = 300_000;
const LOOK_EVERY_MS = 500;
const NEW_MASTER_KEY = 'cd'.repeat(32);

interface Tally {
  requests: number;
  failed: number;
  times: number[];
  tookMs: number;
}

/**
 * Measures a rotation of the master key over 100,000 data keys: the time until every data key is rewrapped and until the old key is
 * deleted, and the requests of 8 callers meanwhile, compared with the same requests without a rotation. The callers make subscriptions,
 * which makes data keys, read what these seal, and remove them, which destroys the keys; and they store a secret of the account.
 */
export async function run(): Promise<object> {
  const database = await OutsidePostgres.start();
  let service: StartedService | undefined;
  try {
    service = await StartedService.start(replicaOptions(database.url, 'local', { environment: { MOORING_LOG_LEVEL: 'warn' } }));
    await fill(database.url);
    const figures = await measure(service);
    console.table(figures);
    return figures;
  } finally {
    await service?.stop();
    if (service !== undefined) await removeDataDir(service.dataDir);
    await database.stop();
  }
}

async function fill(url: string): Promise<void> {
  const key = Buffer.from(masterKey, 'hex');
  for (let from = 0; from < DATA_KEYS; from += AT_A_TIME) {
    const subjects = Array.from({ length: Math.min(AT_A_TIME, DATA_KEYS - from) }, (_, n) => `filled-${from + n}`);
    const wrapped = subjects.map((subject) => wrapDataKey(key, subject, 1, newDataKey()));
    await operate(
      url,
      'insert into data_keys (subject, version, kek_id, wrapped) select s, 1, $1, w from unnest($2::text[], $3::bytea[]) k(s, w)',
      [keyIdOf(key), subjects, wrapped],
    );
  }
}

async function measure(service: StartedService): Promise<object> {
  const { email, password, api_key, url } = service.firstRun;
  const { body } = await service.call('POST', '/api/auth/login', { email, password });
  const admin = new Caller(() => url, body.session_token as string);
  const callers = Array.from({ length: CALLERS }, () => new Caller(() => url, api_key));
  await requestsWhile(callers, wait(WARM_UP_MS));
  const alone = await requestsWhile(callers, wait(BASELINE_MS));
  const cpu = cpuMs(service.pid);
  const times = { rewrapped: 0, finished: 0 };
  const meanwhile = await requestsWhile(callers, rotate(admin, times));
  return {
    data_keys: DATA_KEYS,
    rewrapped_after_s: rounded(times.rewrapped / 1_000),
    finished_after_s: rounded(times.finished / 1_000),
    ...named('without', alone),
    ...named('during', meanwhile),
    cpu_share_during: rounded((cpuMs(service.pid) - cpu) / meanwhile.tookMs),
    peak_memory_mb: memoryMb(service.pid).peak,
    load: machineLoad(),
  };
}

async function rotate(admin: Caller, times: { rewrapped: number; finished: number }): Promise<void> {
  const began = performance.now();
  await admin.done('POST', '/api/admin/keys/rotate', { new_master_key: NEW_MASTER_KEY });
  const at = async (phases: string[]): Promise<number> => {
    for (;;) {
      const { rotation } = (await admin.done('GET', '/api/admin/keys')).body as { rotation: { phase: string } };
      const ms = performance.now() - began;
      if (phases.includes(rotation.phase)) return ms;
      if (ms > PATIENCE_MS) throw new Error(`the rotation is ${rotation.phase} after ${ms} ms`);
      // Each poll counts the data keys that are left.
      await wait(LOOK_EVERY_MS);
    }
  };
  times.rewrapped = await at(['waiting', 'finished']);
  times.finished = await at(['finished']);
}

/** Sends requests until the work is over. Throws if the work does. */
async function requestsWhile(callers: Caller[], work: Promise<unknown>): Promise<Tally> {
  const tally: Tally = { requests: 0, failed: 0, times: [], tookMs: 0 };
  const began = performance.now();
  const ending = new AbortController();
  const send = async (caller: Caller, method: string, path: string, json?: object) => {
    const answer = await caller.call(method, path, json);
    tally.requests += 1;
    tally.times.push(answer.ms);
    if (answer.status < 200 || answer.status > 299) tally.failed += 1;
    return answer;
  };
  const sending = callers.map(async (caller, n) => {
    while (!ending.signal.aborted) {
      await send(caller, 'PUT', `/api/v1/secrets/bench-${n}`, { value: `value ${tally.requests}` });
      const { body } = await send(caller, 'POST', '/api/v1/subscriptions', { url: 'https://receiver.invalid/' });
      await send(caller, 'GET', `/api/v1/subscriptions/${body?.id}`);
      await send(caller, 'DELETE', `/api/v1/subscriptions/${body?.id}`);
    }
  });
  await work.finally(() => ending.abort());
  await Promise.all(sending);
  tally.tookMs = performance.now() - began;
  return tally;
}

function named(when: string, { requests, failed, times, tookMs }: Tally): object {
  return {
    [`requests_per_s_${when}`]: rounded((requests * 1_000) / tookMs),
    [`failed_${when}`]: failed,
    [`p50_ms_${when}`]: percentile(times, 0.5),
    [`p99_ms_${when}`]: percentile(times, 0.99),
    [`max_ms_${when}`]: percentile(times, 1),
  };
}
