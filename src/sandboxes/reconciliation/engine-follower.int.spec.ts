import { untilTrue } from '../../../test/support/until.ts';
import type { ContainerRuntime, RuntimeEvent } from '../../runtime/runtime.ts';
import type { ListedContainer, RuntimeList } from '../../runtime/container.ts';
import type { Sagas } from '../../eventsourcing/sagas/saga.ts';
import { computerSandbox, type SandboxKind } from '../sandbox-id.ts';
import type { FollowedKind } from './container-kind.ts';
import { ContainerKinds } from './container-kinds.ts';
import type { ContainerSteps } from './container-steps.service.ts';
import { Differences } from './differences.service.ts';
import { EngineFollower } from './engine-follower.service.ts';
import type { EngineUptime } from './engine-uptime.service.ts';
import type { EngineView } from './engine-view.service.ts';

const agentId = '00000000-0000-4000-8000-000000000001';
const computerId = computerSandbox('00000000-0000-4000-8000-000000000002');

/** An engine with a container of an agent and the volume of a computer that no log knows, and whose events were lost. */
class LossyEngine {
  lists = 0;

  listCached(maxAgeMs: number): Promise<RuntimeList> {
    expect(maxAgeMs).toBe(0);
    this.lists += 1;
    return Promise.resolve({ containers: [{ agentId } as ListedContainer], volumes: [computerId] });
  }

  capabilities(): Promise<object> {
    return Promise.resolve({ freeze: true });
  }

  async *events(signal: AbortSignal): AsyncIterable<RuntimeEvent> {
    yield { kind: 'lost' };
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  }
}

function kindWithoutSandboxes(kind: SandboxKind): FollowedKind {
  return { kind, saga: `${kind}s`, rows: { page: () => Promise.resolve([]) } } as unknown as FollowedKind;
}

let follower: EngineFollower;
afterEach(() => follower.beforeApplicationShutdown());

describe('events of the engine that were lost', () => {
  it('are replaced by one list of the engine, however many kinds of sandboxes there are', async () => {
    const engine = new LossyEngine();
    const runtime = engine as unknown as ContainerRuntime;
    const kinds = new ContainerKinds();
    for (const kind of ['agent', 'computer'] as const) kinds.register(kindWithoutSandboxes(kind));
    const woken: string[] = [];
    const sagas = { wake: (saga: string, key: string) => woken.push(`${saga} ${key}`) } as unknown as Sagas;
    const view = { interruptWait: () => undefined } as unknown as EngineView;
    const differences = new Differences(runtime, { rules: () => ({}) } as unknown as ContainerSteps);
    follower = new EngineFollower(engine as unknown as EngineUptime, kinds, sagas, view, differences);
    follower.onApplicationBootstrap();
    await untilTrue(() => woken.length === 2);
    expect(woken).toEqual([`agents ${agentId}`, `computers ${computerId}`]);
    expect(engine.lists).toBe(1);
  });
});
