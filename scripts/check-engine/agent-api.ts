import { setTimeout as sleep } from 'node:timers/promises';

import type { ServiceResponse, Body, Service } from './service.ts';
import { check } from './outcome.ts';

const BUILD_LOG_LINES_SHOWN = 5;
const PAUSE_MS = 250;

interface Dependency {
  name: string;
  status: string;
  detail?: string;
}

/** The steps' calls to the service, which throw unless the response is as expected. */
export class AgentApi {
  constructor(private readonly service: Service) {}

  /** Creates an agent, and waits until it is active. Returns its id. */
  async provision(name: string, source: object): Promise<string> {
    const made = await this.service.call('POST', '/api/v1/provision', { name, ...source });
    check(made.status === 201, `making the agent was answered ${shown(made)}`);
    await this.active(made.body.agent_id);
    return made.body.agent_id;
  }

  /** Waits until the agent is active. Throws with its message and the end of its build log if it has failed. */
  async active(agentId: string): Promise<void> {
    for (;;) {
      const answer = await this.service.call('GET', `/api/v1/agents/${agentId}/wait?status=active,error&timeout=60`);
      if (answer.status === 408) continue;
      check(answer.status === 200, `waiting for the agent was answered ${shown(answer)}`);
      if (answer.body.status === 'active') return;
      throw new Error(`${answer.body.message} (${await this.endOfBuildLog(agentId)})`);
    }
  }

  async deploy(agentId: string, source: object = {}): Promise<void> {
    const answer = await this.service.call('POST', `/api/v1/agents/${agentId}/deploy`, source);
    check(answer.status === 202, `the deployment was answered ${shown(answer)}`);
    await this.active(agentId);
  }

  async rollBack(agentId: string, deploymentId: string): Promise<void> {
    const answer = await this.service.call('POST', `/api/v1/agents/${agentId}/rollback`, { deployment_id: deploymentId });
    check(answer.status === 202, `the rollback was answered ${shown(answer)}`);
    await this.active(agentId);
    const [latest] = await this.deployments(agentId);
    check(latest.status === 'success', `the rollback ended as ${latest.status}: ${latest.message}`);
  }

  /** Returns the agent's deployments, the newest first. */
  async deployments(agentId: string): Promise<Body[]> {
    return (await this.service.call('GET', `/api/v1/agents/${agentId}/deployments?limit=50`)).body;
  }

  /** Stops, starts, restarts or suspends the agent, and checks its status afterwards. */
  async change(agentId: string, verb: 'start' | 'stop' | 'restart' | 'sleep', status: string): Promise<void> {
    const answer = await this.service.call('POST', `/api/agents/${agentId}/${verb}`, undefined, { prefer: 'wait=90' });
    check(answer.body.status === status, `${verb} was answered ${shown(answer)}, and ${status} was expected`);
  }

  /** Sends the agent a message. Returns its reply, and whether it had to be woken. */
  async chat(agentId: string, message: string): Promise<{ reply: string; woken: boolean }> {
    const answer = await this.service.call('POST', `/api/agents/${agentId}/chat`, { message });
    check(answer.status === 200, `the chat was answered ${shown(answer)}`);
    return { reply: answer.body.response, woken: answer.headers.get('x-agent-woken') === 'true' };
  }

  /** Checks that the agent's reply contains the text. */
  async replies(agentId: string, text: string): Promise<void> {
    const { reply } = await this.chat(agentId, 'hello');
    check(reply.includes(text), `the agent replied “${reply}”, and “${text}” was expected`);
  }

  async exec(agentId: string, command: string[] | string, timeout = 30): Promise<Body> {
    const answer = await this.service.call('POST', `/api/agents/${agentId}/exec`, { command, timeout });
    check(answer.status === 200, `the command was answered ${shown(answer)}`);
    return answer.body;
  }

  /** Polls until the probe returns something other than undefined. The step's timeout ends it. */
  async until<T>(probe: () => Promise<T | undefined>): Promise<T> {
    for (;;) {
      const found = await probe();
      if (found !== undefined) return found;
      await sleep(PAUSE_MS, undefined, { signal: this.service.signal });
    }
  }

  async ready(): Promise<{ status: string; dependencies: Dependency[] }> {
    return (await this.service.call('GET', '/ready')).body;
  }

  /** Returns the reason why a dependency is unavailable; null if it is available. */
  async lackOf(name: string): Promise<string | null> {
    const found = (await this.ready()).dependencies.find((dependency) => dependency.name === name);
    return found === undefined || found.status === 'ok' ? null : (found.detail ?? 'no reason');
  }

  /** Returns the first detail in `/ready` that matches the pattern; null if there is none. */
  async readiness(pattern: RegExp): Promise<string | null> {
    const details = (await this.ready()).dependencies.map(({ detail }) => detail ?? '');
    return details.find((detail) => pattern.test(detail)) ?? null;
  }

  private async endOfBuildLog(agentId: string): Promise<string> {
    const [latest] = await this.deployments(agentId);
    return String(latest?.build_log ?? '')
      .trim()
      .split('\n')
      .slice(-BUILD_LOG_LINES_SHOWN)
      .join(' | ');
  }
}

/** Returns a short form of an unexpected response. */
export function shown({ status, body }: ServiceResponse): string {
  const text = typeof body === 'string' ? body : (body.detail ?? body.message ?? JSON.stringify(body));
  return `${status} ${typeof body === 'string' ? '' : (body.code ?? body.status ?? '')} (${String(text).slice(0, 400)})`;
}
