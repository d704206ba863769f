import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';

import Dockerode from 'dockerode';

import { builderImage } from '../../test/support/builder-image.ts';
import { GitServer } from '../../test/support/git-server.ts';
import { importNodeImage } from '../../test/support/images.ts';
import { span, until } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { machineLoad, rounded, summary } from '../support/figures.ts';
import { nodeOptions } from '../support/node-options.ts';
import { makeRealImage, REAL_IMAGE, removeRealImage } from '../support/real-agents.ts';
import { makeAgent, type RunningEngine, ScaleBed, timedChat } from '../support/scale-bed.ts';

const CHATS = Number(process.env.BENCH_CHATS ?? 300);
/** The attacks that are measured; all of them by default. */
const CHOSEN = process.env.BENCH_ATTACKS?.split(',');
const WARM_UP_CHATS = 30;
const COMMANDS = 8;
const COMMAND_SECONDS = 60;
const STRANGERS = 33;
/** The bound on an attack, which ends with the measurement. */
const FLOOD_SECONDS = 120;
const BUILD_MS = 120_000;

const aims = { chat_p95_times_alone: 1.5 };
/** The machine's own engine, which no benchmark starts or stops. */
const machineEngine: RunningEngine = { environment: {}, close: async () => undefined };

type Attack = (bed: Bed) => Promise<() => Promise<void>>;

interface Bed {
  bed: ScaleBed;
  hostile: Caller;
  /** An agent of the hostile account. */
  hostileId: string;
  git: GitServer;
  /** The base image of a repository. */
  base: string;
}

const attacks = (): Record<string, Attack> => ({
  build: floodingBuild,
  loops: eightLoops,
  output: eightYes,
  strangers: strangersWebhooks,
});

/**
 * Measures the chats of one account's agent alone, and during each attack of another account: a build that floods its network, eight
 * commands that print endlessly, eight that only compute, and webhooks of 33 addresses without the token. It needs an engine and a C
 * compiler.
 */
export async function brought(): Promise<object> {
  if (!(await makeRealImage())) throw new Error('hostile:brought needs an engine and a C compiler for its agents');
  const engine = new Dockerode();
  const base = await importNodeImage(engine, `mooring-bench-${randomBytes(6).toString('hex')}:1`);
  const git = await GitServer.start();
  const bed = await ScaleBed.start({
    outside: machineEngine,
    nodeOptions,
    environment: {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      MOORING_SHARED_IMAGES: `${base},${REAL_IMAGE}`,
      MOORING_BUILDER_IMAGE: await builderImage(),
      MOORING_TRUSTED_PROXIES: '127.0.0.1',
    },
  });
  try {
    const [good, hostile] = [bed.caller((await bed.account()).key), bed.caller((await bed.account()).key)];
    const agentId = await makeAgent(good, REAL_IMAGE);
    const hostileId = await makeAgent(hostile, REAL_IMAGE);
    await chats(good, agentId, WARM_UP_CHATS);
    const figures: Record<string, object> = {};
    for (const [name, attack] of Object.entries(attacks())) {
      if (CHOSEN?.includes(name) === false) continue;
      const alone = await chats(good, agentId, CHATS);
      const end = await attack({ bed, hostile, hostileId, git, base });
      const beside = await besideAttack(end, () => chats(good, agentId, CHATS));
      const times = rounded(beside.p95 / alone.p95);
      figures[name] = { alone_p95_ms: alone.p95, beside_p95_ms: beside.p95, failed: beside.failed, chat_p95_times_alone: times };
    }
    console.table(figures);
    return { aims, ...figures, load: machineLoad() };
  } finally {
    await bed.dispose();
    await git.close();
    await removeRealImage();
    await engine.getImage(base).remove({ force: true });
  }
}

/** Measures while an attack is under way, and ends the attack. */
async function besideAttack<T>(end: () => Promise<void>, measure: () => Promise<T>): Promise<T> {
  try {
    return await measure();
  } finally {
    await end();
  }
}

async function chats(caller: Caller, agentId: string, count: number): Promise<{ p95: number; failed: number }> {
  const times: number[] = [];
  let failed = 0;
  for (let n = 0; n < count; n++) {
    const { ms, status } = await timedChat(caller, agentId);
    times.push(ms);
    if (status !== 200) failed += 1;
  }
  return { p95: summary(times).p95, failed };
}

/** Builds an image with a step that sends datagrams to every neighbour and to the gateway as fast as it can. */
async function floodingBuild({ hostile, git, base }: Bed): Promise<() => Promise<void>> {
  const flood = [
    "const { networkInterfaces } = require('node:os');",
    'const own = Object.values(networkInterfaces()).flat().find((each) => !each.internal);',
    "const stem = own.address.split('.').slice(0, 3).join('.');",
    "const socket = require('node:dgram').createSocket('udp4');",
    'const payload = Buffer.alloc(1400);',
    `const until = Date.now() + ${FLOOD_SECONDS * 1_000};`,
    'let at = 0;',
    'socket.on("error", () => {});',
    'const send = () => Date.now() > until ? process.exit(0) : socket.send(payload, 9, stem + "." + (1 + (at++ % 254)), () => setImmediate(send));',
    'console.log("FLOODING");',
    'for (let n = 0; n < 64; n++) send();',
  ].join('\n');
  git.commit('flood', { Dockerfile: `FROM ${base}\nCOPY flood.js /\nRUN ["node", "/flood.js"]\n`, 'flood.js': flood });
  const { body } = await hostile.done('POST', '/api/v1/provision', { name: 'flood', repo_url: git.url('flood') });
  const agentId = body.agent_id as string;
  await until(
    'the build floods its network',
    async () => {
      const { body: deployments } = await hostile.call('GET', `/api/v1/agents/${agentId}/deployments`);
      return JSON.stringify(deployments).includes('FLOODING') ? true : undefined;
    },
    { timeoutMs: BUILD_MS, everyMs: 200 },
  );
  return async () => {
    await hostile.call('DELETE', `/api/v1/agents/${agentId}`, undefined, { prefer: 'wait=60' });
  };
}

const eightYes: Attack = (bed) => eightCommands(bed, 'yes');
/** These print nothing, so they show what an agent's share of the processor alone costs the others. */
const eightLoops: Attack = (bed) => eightCommands(bed, 'while :; do :; done');

async function eightCommands({ hostile, hostileId }: Bed, script: string): Promise<() => Promise<void>> {
  const command = { command: ['/.mooring/busybox', 'sh', '-c', script], timeout: COMMAND_SECONDS };
  const running = Array.from({ length: COMMANDS }, () => hostile.call('POST', `/api/agents/${hostileId}/exec`, command));
  // The first seconds of a command are its start.
  await span(1_000);
  return async () => {
    await hostile.call('POST', `/api/v1/agents/${hostileId}/restart`, undefined, { prefer: 'wait=60' });
    await Promise.all(running);
  };
}

async function strangersWebhooks({ bed, hostileId }: Bed): Promise<() => Promise<void>> {
  const program = join(import.meta.dirname, '..', 'support', 'strangers.ts');
  const url = `${bed.service.firstRun.url}/api/webhooks/${hostileId}`;
  const strangers = fork(program, [url, String(STRANGERS)], { execArgv: ['--import', './scripts/typescript.mjs'] });
  await once(strangers, 'spawn');
  return async () => {
    strangers.kill();
    await once(strangers, 'exit');
  };
}
