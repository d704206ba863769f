import { factLine, isBlocked, resultLines, type Result } from './report.ts';
import { check, differs, type Exception } from './outcome.ts';
import type { Part, Step, Walk } from './step.ts';

type Print = (line: string) => void;

/** Runs the steps one after the other, and prints each. The signal ends the check: the remaining steps are skipped. */
export async function runParts(parts: readonly Part[], walk: Walk, signal: AbortSignal, print: Print): Promise<Result[]> {
  const results: Result[] = [];
  for (const { name, steps } of parts) {
    print('');
    print(name);
    for (const step of steps) {
      const isLeftOut = signal.aborted || isBlocked(step, results);
      const result: Result = isLeftOut ? { name: step.name, state: 'not tried', why: null, ms: 0 } : await runStep(step, walk, signal);
      results.push(result);
      resultLines(result).forEach(print);
    }
  }
  return results;
}

async function runStep(step: Step, walk: Walk, ending: AbortSignal): Promise<Result> {
  const began = performance.now();
  const late = AbortSignal.timeout(step.seconds * 1_000);
  const signal = AbortSignal.any([ending, late]);
  walk.service.signal = signal;
  const result = (state: Result['state'], why: string | null): Result => ({ name: step.name, state, why, ms: performance.now() - began });
  try {
    const exception = await Promise.race([step.run(walk), ended(signal)]);
    return exception === undefined ? result('holds', null) : result(exception.state, exception.why);
  } catch (error) {
    if (ending.aborted) return result('not tried', 'the walk was ended');
    return result('failed', late.aborted ? `it took longer than ${step.seconds} s` : messageOf(error));
  }
}

function ended(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

/** Returns an error's message with that of its cause, which has more details about a failed connection. */
export function messageOf(error: unknown): string {
  const { message = String(error), cause } = error as { message?: string; cause?: { message?: string } };
  return cause?.message === undefined ? message : `${message}: ${cause.message}`;
}

/** The last part of every check. */
export const lastPart: Part = {
  name: 'at the end',
  steps: [
    { name: 'the service is ready, and has nothing to say of the engine', seconds: 30, run: isReady },
    { name: 'agents are deleted, with their containers and volumes', seconds: 180, run: deletes },
  ],
};

async function isReady({ api }: Walk): Promise<Exception | void> {
  const { status, dependencies } = await api.ready();
  const said = dependencies.filter((each) => each.status !== 'ok' || each.detail !== undefined);
  const text = said.map(({ name, status: state, detail }) => `${name} is ${state}${detail === undefined ? '' : ` (${detail})`}`).join('; ');
  check(status !== 'unavailable', text);
  if (said.length > 0) return differs(text);
}

async function deletes({ api, engine, service }: Walk): Promise<void> {
  await deleteAgents(service);
  const instance = (await service.instance()) ?? '';
  await api.until(async () => ((await engine.agentParts(instance)).length === 0 ? true : undefined));
}

/** Deletes all agents of the installation. */
export async function deleteAgents(service: Walk['service']): Promise<void> {
  const { body } = await service.call('GET', '/api/v1/agents?limit=200');
  const answers = await Promise.all(
    (body as { agent_id: string }[]).map(({ agent_id: id }) => service.call('DELETE', `/api/v1/agents/${id}`)),
  );
  const wrong = answers.find(({ status }) => ![202, 204].includes(status));
  check(wrong === undefined, `a deletion was answered ${wrong?.status}`);
}

/** Returns the line that says how the service reaches its agents, determined from one of their containers. */
export async function reachLine({ engine, agents }: Walk): Promise<string> {
  const [agentId] = agents.values();
  if (agentId === undefined) return factLine('agents', 'none was made');
  const { HostConfig } = await engine.containerOf(agentId);
  const bound = Object.values((HostConfig.PortBindings ?? {}) as Record<string, { HostIp?: string }[] | null>).flatMap(
    (each) => each ?? [],
  );
  return factLine(
    'agents',
    bound.length === 0 ? 'reached at their own addresses' : `reached at ports that the engine publishes at ${bound[0]?.HostIp ?? '?'}`,
  );
}
