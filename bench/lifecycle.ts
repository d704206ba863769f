import { request } from 'node:http';
import { setTimeout as after } from 'node:timers/promises';

import Dockerode from 'dockerode';

import { seenContainers } from '../test/support/engine.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { machineLoad, percentile, rounded, timed } from './support/figures.ts';

const ROUNDS = 15;
const FROZEN_ROUNDS = 60;
const AWAKE_ROUNDS = 300;
const AWAKE_WARM_ROUNDS = 100;
const docker = new Dockerode();

/**
 * Measures the time (in ms) of a chat with an agent that is awake against a message to its port, and the time from provision to active and from
 * wake to the first reply against the time that the engine's own API needs for the same image in the same run.
 */
export async function run(): Promise<object> {
  const service = await StartedService.start({
    runtime: 'docker',
    environment: { MOORING_DEEP_SLEEP_AFTER: '2', MOORING_LOG_LEVEL: 'warn' },
  });
  const bench = new LifecycleBench(service);
  try {
    await bench.prepare();
    const figures = {
      ...(await bench.awakeChats()),
      ...(await bench.frozenWakes()),
      ...(await bench.stoppedWakes()),
      ...(await bench.provisioning()),
    };
    console.table(figures);
    return { ...figures, load: machineLoad() };
  } finally {
    await bench.clean();
    await service.dispose();
  }
}

class LifecycleBench {
  agentId = '';
  private address = '';
  private conversationId: string | null = null;
  image = '';
  network = '';
  private bare: Dockerode.Container[] = [];

  constructor(private readonly service: StartedService) {}

  async prepare(): Promise<void> {
    this.agentId = (await this.provision()).agentId;
    const [seen] = await seenContainers(this.agentId);
    const view = await docker.getContainer(seen?.id ?? '').inspect();
    this.image = view.Image;
    const [network, settings] = Object.entries(view.NetworkSettings.Networks)[0] ?? ['bridge', undefined];
    this.network = network;
    this.address = settings?.IPAddress ?? '';
  }

  async clean(): Promise<void> {
    await Promise.all(this.bare.splice(0).map((container) => container.remove({ force: true, v: true }).catch(() => undefined)));
  }

  /** Sends messages to the port of the agent that is awake, and through the service, in turn. */
  async awakeChats(): Promise<object> {
    const bare: number[] = [];
    const ours: number[] = [];
    for (let round = -AWAKE_WARM_ROUNDS; round < AWAKE_ROUNDS; round++) {
      const [one, other] = [await timed(() => say(this.address)), await timed(() => this.chat())];
      if (round < 0) continue;
      bare.push(one);
      ours.push(other);
    }
    return { awake_chat: compared(bare, ours) };
  }

  async provisioning(): Promise<object> {
    const bare: number[] = [];
    const ours: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      bare.push(await timed(async () => this.bareStart(await this.bareCreate())));
      await this.clean();
      const began = performance.now();
      const { agentId } = await this.provision();
      ours.push(performance.now() - began);
      await this.service.call('DELETE', `/api/v1/agents/${agentId}`);
    }
    return { provision: { ...compared(bare, ours), ratio: rounded(percentile(ours, 0.5) / percentile(bare, 0.5)) } };
  }

  async frozenWakes(): Promise<object> {
    const container = await this.bareCreate();
    const address = await this.bareStart(container);
    const bare: number[] = [];
    const ours: number[] = [];
    for (let round = 0; round < FROZEN_ROUNDS; round++) {
      await container.pause();
      bare.push(await timed(() => container.unpause().then(() => say(address))));
      await this.service.call('POST', `/api/agents/${this.agentId}/sleep`, undefined, { prefer: 'wait=20' });
      ours.push(await timed(() => this.chat()));
    }
    await this.clean();
    return { frozen_wake: compared(bare, ours) };
  }

  async stoppedWakes(): Promise<object> {
    const bare: number[] = [];
    const ours: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const container = await this.bareCreate();
      bare.push(await timed(async () => say(await this.bareStart(container))));
      await this.clean();
      await this.service.call('POST', `/api/agents/${this.agentId}/sleep`, undefined, { prefer: 'wait=20' });
      await until('it sleeps deeply', async () => ((await seenContainers(this.agentId))[0]?.state === 'exited' ? true : undefined));
      await after(100);
      ours.push(await timed(() => this.chat()));
    }
    return { stopped_wake: compared(bare, ours) };
  }

  private async provision(): Promise<{ agentId: string }> {
    const made = await this.service.call('POST', '/api/agents', { name: 'bench', templateId: 'hello' }, { prefer: 'wait=60' });
    if (made.body.status !== 'active') throw new Error(`the agent is ${made.body.status}: ${made.body.message}`);
    return { agentId: made.body.agent_id };
  }

  private async chat(): Promise<void> {
    const message = { message: 'bench', ...(this.conversationId === null ? {} : { conversation_id: this.conversationId }) };
    const { status, body } = await this.service.call('POST', `/api/agents/${this.agentId}/chat`, message);
    if (status !== 200) throw new Error(`chat answered ${status}`);
    this.conversationId = body.conversation_id;
  }

  /**
   * Creates the container that the engine has to create for such an agent in any case: with the same image and command, an init process and
   * a new volume, on the same network. Limits, dropped privileges and the helper's mount are specific to Mooring, so they count on its
   * side.
   */
  private async bareCreate(): Promise<Dockerode.Container> {
    const container = await docker.createContainer({
      Image: this.image,
      Env: ['PORT=8080', 'MOORING_VOLUME=/data'],
      HostConfig: { NetworkMode: this.network, Init: true, Mounts: [{ Type: 'volume', Source: '', Target: '/data' }] },
    });
    this.bare.push(container);
    return container;
  }

  /** Starts the container, waits until it is ready, and returns the address at which it answers. */
  private async bareStart(container: Dockerode.Container): Promise<string> {
    await container.start();
    const view = await container.inspect();
    const address = view.NetworkSettings.Networks[this.network]?.IPAddress ?? '';
    await until('it is ready', () => get(address), { everyMs: 5 });
    return address;
  }
}

function get(host: string): Promise<true | undefined> {
  return new Promise((resolve) => {
    const call = request({ host, port: 8080, path: '/healthz', timeout: 1_000 }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200 ? true : undefined);
    });
    call.on('error', () => resolve(undefined)).end();
  });
}

async function say(host: string): Promise<void> {
  const body = JSON.stringify({ id: String(performance.now()), channel: 'chat', conversation_id: 'bench', text: 'bench' });
  const answer = await fetch(`http://${host}:8080/messages`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  await answer.text();
}

/** Compares the times of neighbouring rounds. `added` is the part of a time that the other one does not take. */
function compared(bare: readonly number[], ours: readonly number[]): object {
  const added = ours.map((ms, round) => ms - (bare[round] ?? NaN));
  return {
    bare: percentile(bare, 0.5),
    mooring: percentile(ours, 0.5),
    mooring_p95: percentile(ours, 0.95),
    added_p50: percentile(added, 0.5),
    added_p95: percentile(added, 0.95),
  };
}
