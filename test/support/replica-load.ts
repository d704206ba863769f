import { randomInt, randomUUID } from 'node:crypto';

import { span } from './until.ts';
import type { ServiceResponse, StartedService } from './started-service.ts';

/** The longest wait for a response, in ms; a later one may never come because the process is suspended. */
const PATIENCE_MS = 20_000;
const AGAIN_MS = 250;

/**
 * A module that makes a Node program answer each POST half a second late, so that the replica which delivers a message may die meanwhile.
 */
const slowly = `import { ServerResponse } from 'node:http';
const { end } = ServerResponse.prototype;
ServerResponse.prototype.end = function (...of) {
  if (this.req.method === 'POST') setTimeout(() => end.apply(this, of), 500);
  else end.apply(this, of);
  return this;
};`;
const slow = { NODE_OPTIONS: `--import=data:text/javascript;base64,${Buffer.from(slowly).toString('base64')}` };

/** One user who has one agent at a time, calls any replica that responds, and remembers the acknowledged writes. */
export class ReplicaUser {
  agentId = '';
  /** The ids of the requests whose change of the agent was acknowledged, each with the agent. */
  readonly changes: { requestId: string; agentId: string }[] = [];
  readonly deployments: { deploymentId: string; agentId: string }[] = [];
  readonly replies: { messageId: string; agentId: string; text: string; response: string }[] = [];
  readonly made: string[] = [];
  readonly gone: string[] = [];
  /** The number of failed operations, by the response. */
  readonly refusals = new Map<string, number>();

  constructor(
    private readonly replicas: readonly StartedService[],
    readonly name: string,
    private readonly idleSeconds: number,
    /** While the value is true, its agents respond slowly. */
    private readonly patient: boolean,
  ) {}

  /** Performs random operations, one after the other, until the signal aborts. */
  async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.agentId === '') await this.provision(signal);
      else await this.anything(signal);
    }
  }

  private async anything(signal: AbortSignal): Promise<void> {
    const dice = randomInt(100);
    if (dice < 55) await this.chat();
    else if (dice < 67) await this.describe();
    else if (dice < 75) await this.order('sleep');
    else if (dice < 88) await this.order('start');
    else if (dice < 90) await this.order('restart');
    else if (dice < 92) await this.order('stop');
    else if (dice < 96) await this.deploy();
    else await this.remove(signal);
  }

  async provision(signal: AbortSignal): Promise<void> {
    const envVars = this.patient ? slow : {};
    const body = { name: this.name, templateId: 'hello', idleTtlSeconds: this.idleSeconds, externalId: randomUUID(), envVars };
    const answer = await this.insist(signal, () => this.ask('POST', '/api/agents', body, { 'idempotency-key': body.externalId }));
    if (answer === null) return;
    this.agentId = answer.body.agent_id;
    this.made.push(this.agentId);
  }

  private async chat(): Promise<void> {
    const { agentId } = this;
    const text = randomUUID();
    const answer = await this.ask('POST', `/api/agents/${agentId}/chat`, { message: text });
    if (answer?.status === 200) this.replies.push({ messageId: answer.body.message_id, agentId, text, response: answer.body.response });
    else this.note('chat', answer);
  }

  private async describe(): Promise<void> {
    const { agentId } = this;
    const requestId = randomUUID();
    const answer = await this.ask('PATCH', `/api/v1/agents/${agentId}`, { description: requestId }, { 'x-request-id': requestId });
    if (answer?.status !== 200) return this.note('describe', answer);
    this.changes.push({ requestId, agentId });
    // The read goes to any replica, and must show what this caller wrote.
    const read = await this.ask('GET', `/api/v1/agents/${agentId}`);
    if (read?.status === 200 && read.body.description !== requestId) throw new Error(`${this.name} does not read its own write`);
  }

  private async deploy(): Promise<void> {
    const { agentId } = this;
    const key = { 'idempotency-key': randomUUID(), prefer: 'wait=10' };
    const answer = await this.ask('POST', `/api/v1/agents/${agentId}/deploy`, undefined, key);
    if (answer !== null && answer.status < 300) this.deployments.push({ deploymentId: answer.body.deployment_id, agentId });
    else this.note('deploy', answer);
  }

  private async order(what: 'sleep' | 'start' | 'restart' | 'stop'): Promise<void> {
    const prefer: Record<string, string> = randomInt(2) === 0 ? { prefer: 'wait=5' } : {};
    const answer = await this.ask('POST', `/api/v1/agents/${this.agentId}/${what}`, undefined, prefer);
    if (answer === null || answer.status >= 300) this.note(what, answer);
  }

  private async remove(signal: AbortSignal): Promise<void> {
    const { agentId } = this;
    // It is unknown whether a deletion without a response before the end was done.
    this.agentId = '';
    const answer = await this.insist(signal, () => this.ask('DELETE', `/api/v1/agents/${agentId}`));
    if (answer !== null) this.gone.push(agentId);
  }

  /** Repeats an operation that must succeed; returns null if the signal aborts first. */
  private async insist(signal: AbortSignal, attempt: () => Promise<ServiceResponse | null>): Promise<ServiceResponse | null> {
    while (!signal.aborted) {
      const answer = await attempt();
      if (answer !== null && (answer.status < 300 || answer.status === 404)) return answer;
      this.note('insist', answer);
      await span(AGAIN_MS);
    }
    return null;
  }

  /** Returns null if there was no response; the operation may or may not have been performed. */
  private async ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<ServiceResponse | null> {
    // Most callers come through a load balancer, which skips a replica that does not respond.
    const able = this.replicas.filter((replica) => replica.running && (!replica.suspended || randomInt(8) === 0));
    const replica = able[randomInt(Math.max(1, able.length))];
    const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), PATIENCE_MS).unref());
    const answer = replica === undefined ? null : await Promise.race([replica.call(method, path, body, headers).catch(() => null), late]);
    if (answer === null) await span(AGAIN_MS);
    return answer;
  }

  private note(what: string, answer: ServiceResponse | null): void {
    // None of these requests is invalid, so the detail of a 400 is recorded too.
    const { code = '', detail = '' } = answer?.body ?? {};
    const how = answer === null ? `${what}: no answer` : `${what}: ${answer.status} ${code}${answer.status === 400 ? ` ${detail}` : ''}`;
    this.refusals.set(how, (this.refusals.get(how) ?? 0) + 1);
  }
}
