import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

import type { StartedService } from './started-service.ts';
import { until } from './until.ts';

/** The file with the certificates by which this machine reaches the registries, if it has one. */
const caFile = '/etc/ssl/certs/ca-certificates.crt';
const LOOK_MS = 100;

/** The settings of a service that builds templates with packages of npm and PyPI, and stops frozen agents soon. */
export const frameworkEnvironment: Record<string, string> = {
  MOORING_DEEP_SLEEP_AFTER: '2',
  MOORING_DEPLOY_TIMEOUT: '1800',
  ...(existsSync(caFile) ? { MOORING_BUILD_CA_FILE: caFile } : {}),
};

/** Returns whether npm's registry responds with this machine's settings of `npm`. */
export async function npmAnswers(): Promise<boolean> {
  const ask = promisify(execFile)('npm', ['view', 'is-number@7.0.0', 'version', '--fetch-retries=0', '--fetch-timeout=20000']);
  return ask.then(
    ({ stdout }) => stdout.trim() === '7.0.0',
    () => false,
  );
}

/** Returns the ids of all processes of an agent of the local runtime, found by its volume in their environment. */
export async function processesOf(agentId: string): Promise<number[]> {
  const own: number[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').some((variable) => variable.startsWith('MOORING_VOLUME=') && variable.includes(agentId)))
      own.push(Number(pid));
  }
  return own;
}

export type FrameworkSource = { templateId: string } | { repo_url: string };

/** An agent of a framework, and one conversation with it. */
export class FrameworkAgent {
  private conversation: string | undefined;

  private constructor(
    private readonly service: StartedService,
    readonly id: string,
  ) {}

  /**
   * Creates an agent from a template or a repository, with the model at the address, and waits until it is active. Throws with the end of
   * the build log if it fails.
   */
  static async deploy(service: StartedService, modelUrl: string, source: FrameworkSource, timeoutMs: number): Promise<FrameworkAgent> {
    const variables = { OPENAI_BASE_URL: modelUrl, OPENAI_API_KEY: 'none' };
    const made =
      'repo_url' in source
        ? await service.call('POST', '/api/v1/provision', { name: 'framework', ...source, env_vars: variables })
        : await service.call('POST', '/api/agents', { name: 'framework', ...source, envVars: variables });
    if (made.status >= 300) throw new Error(`the agent was refused: ${JSON.stringify(made.body)}`);
    const agent = new FrameworkAgent(service, made.body.agent_id as string);
    await agent.becomesActive(timeoutMs);
    return agent;
  }

  /** Sends a message in the conversation and returns the reply. */
  async says(message: string): Promise<string> {
    const chat = { message, conversation_id: this.conversation };
    const { status, body } = await this.service.call('POST', `/api/agents/${this.id}/chat`, chat);
    if (status !== 200) throw new Error(`the chat got ${status}: ${JSON.stringify(body)}`);
    this.conversation = body.conversation_id as string;
    return body.response as string;
  }

  /** Kills the agent's processes, as the kernel does at the memory limit, and waits until the service has started it again. */
  async kill(timeoutMs: number): Promise<void> {
    const killed = await processesOf(this.id);
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    const isBack = async () => (await processesOf(this.id)).some((pid) => !killed.includes(pid));
    await until('the agent runs again', async () => ((await isBack()) ? true : undefined), { timeoutMs, everyMs: LOOK_MS });
    await this.becomesActive(timeoutMs);
  }

  async freeze(): Promise<void> {
    await this.service.call('POST', `/api/agents/${this.id}/sleep`, undefined, { prefer: 'wait=60' });
  }

  /** Freezes the agent, and waits until the service has stopped it after a while. */
  async sleepDeeply(timeoutMs: number): Promise<void> {
    await this.freeze();
    const path = `/api/v1/agents/${this.id}/history?limit=200&type=AgentSlept`;
    const isStopped = async () => (await this.service.call('GET', path)).body.at(-1)?.data.depth === 'stopped';
    await until('the agent is stopped', async () => ((await isStopped()) ? true : undefined), { timeoutMs, everyMs: LOOK_MS });
  }

  async stopAndStart(timeoutMs: number): Promise<void> {
    const stopped = await this.service.call('POST', `/api/v1/agents/${this.id}/stop`, undefined, { prefer: 'wait=120' });
    if (stopped.body.status !== 'stopped') throw new Error(`the agent did not stop: ${JSON.stringify(stopped.body)}`);
    await this.service.call('POST', `/api/v1/agents/${this.id}/start`);
    await this.becomesActive(timeoutMs);
  }

  async redeploy(timeoutMs: number): Promise<void> {
    const { status } = await this.service.call('POST', `/api/v1/agents/${this.id}/deploy`);
    if (status >= 300) throw new Error(`the deployment was refused with ${status}`);
    await this.becomesActive(timeoutMs);
  }

  private async becomesActive(timeoutMs: number): Promise<void> {
    const settled = async () => {
      const [latest] = (await this.service.call('GET', `/api/v1/agents/${this.id}/deployments`)).body;
      if (latest?.status === 'failed')
        throw new Error(`the deployment failed: ${latest.message}\n${String(latest.build_log).slice(-4_000)}`);
      const { body } = await this.service.call('GET', `/api/agents/${this.id}`);
      return latest?.status === 'success' && body.status === 'active' ? true : undefined;
    };
    await until('the agent is active', settled, { timeoutMs, everyMs: LOOK_MS });
  }
}
