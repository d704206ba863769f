import { seenContainers, seenVolumes } from './engine.ts';
import { killable, Kills } from './kills.ts';
import { StartedService, type ServiceResponse } from './started-service.ts';
import { until } from './until.ts';

/** The most steps of one operation that a test walks through. */
const STEPS_MAX = 20;
const settled = ['active', 'sleeping', 'stopped', 'error'];

/** A service that is killed repeatedly, with an agent that is being operated on and one that must not be affected. */
class Killed extends Kills {
  steady = '';
  steadySince = '';

  constructor(
    service: StartedService,
    readonly runtime: 'docker' | 'local',
  ) {
    super(service);
  }

  async agent(name: string): Promise<string> {
    const made = await this.service.call('POST', '/api/agents', { name, templateId: 'hello', idleTtlSeconds: 0 }, { prefer: 'wait=60' });
    expect(made.body).toMatchObject({ status: 'active' });
    return made.body.agent_id;
  }

  /** Orders the service to die right after the n-th step that concerns the agent, or after any n-th step without an agent. */
  arm(after: number, key: string | null): Promise<void> {
    return this.order({ after, key, saga: 'deployments' });
  }

  /** Performs the operation. Returns whether it was acknowledged before the service died. */
  async attempt(operation: () => Promise<{ status: number }>): Promise<boolean> {
    return operation().then(
      ({ status }) => status < 300,
      () => false,
    );
  }

  /** Waits until the service dies or the agent settles. Returns whether it died, after starting it again. */
  diedAndCameBack(agentId: string): Promise<boolean> {
    return this.diesAndComesBack(async () => {
      const { status, body } = await this.service.call('GET', `/api/v1/agents/${agentId}`);
      return status === 404 || settled.includes(body.status);
    });
  }

  async settles(agentId: string): Promise<string> {
    return until('the agent settles', async () => {
      const { status, body } = await this.service.call('GET', `/api/v1/agents/${agentId}`);
      if (status === 404) return 'gone';
      return settled.includes(body.status) ? (body.status as string) : undefined;
    });
  }

  async nothingDoubledOrLost(agentId: string, gone: boolean): Promise<void> {
    if (this.runtime !== 'docker') return;
    const containers = await until('one container at most', async () => {
      const seen = await seenContainers(agentId);
      return seen.length <= (gone ? 0 : 1) ? seen : undefined;
    });
    expect(containers).toHaveLength(gone ? 0 : 1);
    expect(await seenVolumes(agentId)).toHaveLength(gone ? 0 : 1);
    expect(await seenContainers(this.steady)).toMatchObject([{ state: 'running', startedAt: this.steadySince }]);
  }
}

function notBusy(answer: ServiceResponse): ServiceResponse | undefined {
  return answer.body.code === 'idempotency_in_progress' ? undefined : answer;
}

/** The tests of a service on one runtime that is killed after every step of every operation on an agent. */
export function killedAtEveryStep(runtime: 'docker' | 'local'): void {
  let killed: Killed;

  beforeAll(async () => {
    // On one of the runtimes agents are stopped as soon as they sleep, so that both depths of sleep are tested.
    const environment: Record<string, string> = runtime === 'local' ? { MOORING_DEEP_SLEEP_AFTER: '0' } : {};
    const service = await StartedService.start({ ...(await killable()), runtime, environment });
    killed = new Killed(service, runtime);
    killed.steady = await killed.agent('steady');
    if (runtime === 'docker') killed.steadySince = (await seenContainers(killed.steady))[0]?.startedAt ?? '';
  });

  afterAll(async () => {
    if (killed === undefined) return;
    await killed.cancel();
    await killed.service.dispose();
    process.stdout.write(`${runtime}: ${killed.count} kills\n`);
  });

  it('settles after a kill at every step of a deployment, and keeps every acknowledged write', async () => {
    const agentId = await killed.agent('deployed');
    let step = 1;
    for (; step <= STEPS_MAX; step++) {
      await killed.arm(step, agentId);
      let deployment = '';
      const acknowledged = await killed.attempt(async () => {
        const answer = await killed.service.call('POST', `/api/v1/agents/${agentId}/deploy`);
        deployment = answer.body.deployment_id;
        return answer;
      });
      const died = await killed.diedAndCameBack(agentId);
      expect(await killed.settles(agentId)).toBe('active');
      await killed.nothingDoubledOrLost(agentId, false);
      if (acknowledged) {
        const deployments = await killed.service.call('GET', `/api/v1/agents/${agentId}/deployments`);
        expect(deployments.body).toContainEqual(expect.objectContaining({ id: deployment, status: 'success' }));
      }
      if (!died) break;
    }
    expect(step).toBeLessThanOrEqual(STEPS_MAX);
  });

  it('settles after a kill at every step of a first deployment, without a second request', async () => {
    for (let step = 1; step <= STEPS_MAX; step++) {
      await killed.arm(step, null);
      const key = { 'idempotency-key': `first-${runtime}-${step}` };
      const create = () => killed.service.call('POST', '/api/agents', { name: `first ${step}`, templateId: 'hello' }, key);
      const asked = await create().catch(() => null);
      const died = await killed.diedAndCameBack(asked?.body.agent_id ?? killed.steady);
      // A request that a dead process had begun is reserved for some seconds.
      const made = asked ?? (await until('the same request is answered', async () => notBusy(await create()), { everyMs: 250 }));
      expect(made.status).toBe(201);
      expect(await killed.settles(made.body.agent_id)).toBe('active');
      await killed.nothingDoubledOrLost(made.body.agent_id, false);
      await killed.service.call('DELETE', `/api/v1/agents/${made.body.agent_id}`);
      if (!died) break;
    }
  });

  it('settles after a kill at every step of a start', async () => {
    const agentId = await killed.agent('started');
    for (let step = 1; step <= STEPS_MAX; step++) {
      await killed.service.call('POST', `/api/agents/${agentId}/stop`, undefined, { prefer: 'wait=30' });
      await killed.arm(step, agentId);
      const acknowledged = await killed.attempt(() => killed.service.call('POST', `/api/agents/${agentId}/start`));
      const died = await killed.diedAndCameBack(agentId);
      const status = await killed.settles(agentId);
      if (acknowledged) expect(status).toBe('active');
      await killed.nothingDoubledOrLost(agentId, false);
      if (!died) break;
    }
  });

  it.each(['sleep', 'stop', 'restart'])('settles after a kill at every step of a %s, and answers after it', async (operation) => {
    const agentId = await killed.agent(operation);
    const outcome = { sleep: 'sleeping', stop: 'stopped', restart: 'active' }[operation];
    for (let step = 1; step <= STEPS_MAX; step++) {
      await killed.arm(step, agentId);
      const acknowledged = await killed.attempt(() => killed.service.call('POST', `/api/agents/${agentId}/${operation}`));
      const died = await killed.diedAndCameBack(agentId);
      const status = await killed.settles(agentId);
      if (acknowledged) expect(status).toBe(outcome);
      await killed.nothingDoubledOrLost(agentId, false);
      await killed.service.call('POST', `/api/agents/${agentId}/start`, undefined, { prefer: 'wait=30' });
      expect(await killed.service.call('POST', `/api/agents/${agentId}/chat`, { message: 'well?' })).toMatchObject({ status: 200 });
      if (!died) break;
    }
  });

  it('settles after a kill at every step of a wake, and answers the message', async () => {
    const agentId = await killed.agent('woken');
    for (let step = 1; step <= STEPS_MAX; step++) {
      await killed.service.call('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=30' });
      await killed.arm(step, agentId);
      await killed.attempt(() => killed.service.call('POST', `/api/agents/${agentId}/start`));
      const died = await killed.diedAndCameBack(agentId);
      expect(['active', 'sleeping']).toContain(await killed.settles(agentId));
      await killed.nothingDoubledOrLost(agentId, false);
      expect(await killed.service.call('POST', `/api/agents/${agentId}/chat`, { message: 'awake?' })).toMatchObject({ status: 200 });
      if (!died) break;
    }
  });

  it('settles after a kill at every step of a deletion, and leaves nothing', async () => {
    for (let step = 1; step <= STEPS_MAX; step++) {
      const agentId = await killed.agent('deleted');
      await killed.arm(step, agentId);
      let isAnswered = false;
      const call = () => killed.service.call('DELETE', `/api/v1/agents/${agentId}`);
      const asked = killed.attempt(call).finally(() => (isAnswered = true));
      // The agent's state says nothing before the call has arrived.
      const died = await killed.diesAndComesBack(async () => isAnswered);
      await asked;
      // A call that was interrupted may not have been received, so the caller repeats it.
      expect([204, 404]).toContain((await killed.service.call('DELETE', `/api/v1/agents/${agentId}`)).status);
      expect(await killed.settles(agentId)).toBe('gone');
      await killed.nothingDoubledOrLost(agentId, true);
      if (!died) break;
    }
  });

  it('delivers an acknowledged message after a kill in the middle of its delivery', async () => {
    const agentId = await killed.agent('chatty');
    for (const after of [1, 2]) {
      await killed.order({ after, saga: 'messages' });
      // The reply may be sent just before the kill that follows its record.
      await killed.attempt(() => killed.service.call('POST', `/api/agents/${agentId}/chat`, { message: `before kill ${after}` }));
      expect(await killed.diesAndComesBack(async () => false)).toBe(true);
      await until('the message has its reply', async () => {
        const conversations = await killed.service.call('GET', `/api/agents/${agentId}/conversations`);
        const threads = await Promise.all(
          conversations.body.map(({ id }: { id: string }) =>
            killed.service.call('GET', `/api/agents/${agentId}/conversations/${id}/messages`),
          ),
        );
        const thread = threads.find(({ body }) => body[0].text === `before kill ${after}`);
        return thread?.body.length === 2 ? true : undefined;
      });
    }
  });
}
