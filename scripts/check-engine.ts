/**
 * Walks over the container engine that the environment names, with a service of its own, and says what holds and what differs:
 * `npm run check:engine -- [part…]`. It leaves nothing of its own on the engine. docs/guides/container-engine.md describes it.
 */
import { randomBytes, randomInt } from 'node:crypto';
import { rm } from 'node:fs/promises';

import { GitServer } from '../test/support/git-server.ts';
import { AgentApi } from './check-engine/agent-api.ts';
import { agentsPart } from './check-engine/agents-part.ts';
import { buildsPart } from './check-engine/builds-part.ts';
import { Engine } from './check-engine/engine.ts';
import { imagesPart } from './check-engine/images-part.ts';
import { LIMITS, limitsPart } from './check-engine/limits-part.ts';
import { networkPart } from './check-engine/network-part.ts';
import { chosenParts, engineFacts, exitStatus, factLine, resultLines, summaryLines, type Result } from './check-engine/report.ts';
import { Service } from './check-engine/service.ts';
import type { Part, Walk } from './check-engine/step.ts';
import { WalkImages } from './check-engine/walk-images.ts';
import { deleteAgents, lastPart, messageOf, reachLine, runParts } from './check-engine/walk.ts';

const ANSWER_MS = 15_000;
const DEEP_SLEEP_SECONDS = 8;
const CLEAN_MS = 180_000;
const DELETE_MS = 60_000;
const LOWEST_PORT = 30_000;
const HIGHEST_PORT = 32_000;

const print = (line: string): void => console.log(line);
const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (!ending.signal.aborted) print('\nThe walk ends, and removes what it has made …');
    ending.abort(new Error('the walk was ended'));
  });

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  print(messageOf(error));
  return 1;
});
// A connection to the engine may be left open.
process.exit();

async function main(names: string[]): Promise<number> {
  const parts = [...chosenParts([agentsPart, buildsPart, imagesPart, networkPart, limitsPart], names), lastPart];
  const engine = await Engine.open(randomBytes(4).toString('hex'));
  try {
    return await walkWith(engine, parts);
  } finally {
    await engine.close();
  }
}

async function walkWith(engine: Engine, parts: Part[]): Promise<number> {
  const began = performance.now();
  await describe(engine);
  const service = await Service.open(engine.suffix);
  const git = await GitServer.start();
  const results: Result[] = [];
  try {
    results.push(...(await walkOver(parts, engine, service, git)));
  } catch (error) {
    results.push({ name: 'the service starts', state: 'failed', why: messageOf(error), ms: performance.now() - began });
    print(resultLines(results.at(-1) as Result).join('\n'));
  }
  const cleaned = await cleanUp(engine, service, git);
  summaryLines([...results, cleaned], performance.now() - began).forEach(print);
  const status = ending.signal.aborted || cleaned.state === 'failed' ? 1 : exitStatus(results);
  if (status === 0) await rm(service.logFile, { force: true });
  else print(`The log of the service: ${service.logFile}`);
  return status;
}

async function describe(engine: Engine): Promise<void> {
  const address = await engine.address();
  const late = new Promise<never>((_, reject) => setTimeout(() => reject(new Error('it gave no answer')), ANSWER_MS).unref());
  const { version, info } = await Promise.race([engine.describe(), late]).catch((error: unknown) => {
    throw new Error(`No engine answers at ${address}: ${messageOf(error)}`, { cause: error });
  });
  for (const [label, text] of engineFacts(version, info, address)) print(factLine(label, text));
}

async function walkOver(parts: Part[], engine: Engine, service: Service, git: GitServer): Promise<Result[]> {
  service.signal = ending.signal;
  const images = new WalkImages(engine);
  await images.ensureBase();
  const address = await engine.hostAddress();
  const openPort = randomInt(LOWEST_PORT, HIGHEST_PORT);
  const host = address === null ? null : { address, openPort, closedPort: openPort + 1 };
  await service.start({
    MOORING_DEEP_SLEEP_AFTER: String(DEEP_SLEEP_SECONDS),
    MOORING_ALLOW_PRIVATE_SOURCES: '127.0.0.1',
    MOORING_SHARED_IMAGES: images.repository,
    MOORING_AGENT_MEMORY_MB: String(LIMITS.memoryMb),
    MOORING_AGENT_PIDS: String(LIMITS.pids),
    ...(host === null ? {} : { MOORING_AGENT_EGRESS_PRIVATE: `${host.address}:${host.openPort}` }),
  });
  print(factLine('names', `mooring-${await service.instance()}, mooring-check-${engine.suffix}`));
  const walk: Walk = { engine, service, api: new AgentApi(service), git, images, host, agents: new Map() };
  const [first = lastPart, ...others] = parts;
  const results = await runParts([first], walk, ending.signal, print);
  print('');
  print(await reachLine(walk).catch((error: unknown) => factLine('agents', messageOf(error))));
  return [...results, ...(await runParts(others, walk, ending.signal, print))];
}

/** Removes everything that the check has created, whatever happened to it, and reports leftovers. */
async function cleanUp(engine: Engine, service: Service, git: GitServer): Promise<Result> {
  const began = performance.now();
  const instance = await service.instance();
  const clean = async (): Promise<string[]> => {
    service.signal = AbortSignal.timeout(DELETE_MS);
    await deleteAgents(service).catch(() => undefined);
    await service.stop();
    await engine.clean(instance);
    await git.close();
    await service.remove();
    return engine.leftOvers(instance);
  };
  const late = new Promise<never>((_, reject) => setTimeout(() => reject(new Error('it took too long')), CLEAN_MS).unref());
  const failure = await Promise.race([clean(), late]).then(
    (left) => (left.length === 0 ? null : `${left.join(', ')} is left`),
    (error: unknown) => `${messageOf(error)}; look for mooring-${instance} and mooring-check-${engine.suffix} on the engine`,
  );
  const name = 'nothing of the walk is left on the engine';
  const result: Result = { name, state: failure === null ? 'holds' : 'failed', why: failure, ms: performance.now() - began };
  resultLines(result).forEach(print);
  return result;
}
