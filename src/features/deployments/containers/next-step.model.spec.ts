import fc from 'fast-check';

import { agentDecider } from '../../agents/aggregate/agents.decider.ts';
import { isInTransit } from '../../agents/aggregate/agent-state.rules.ts';
import type { Agent, AgentCommand, AgentEvent } from '../../agents/index.ts';
import type { ContainerState, ContainerView } from '../../../runtime/container.ts';
import * as given from '../../../../test/support/agents.ts';
import { NOON } from '../../../../test/support/decider-spec.ts';
import type { ActualState, StepRules } from '../../../sandboxes/lifecycle/steps.rules.ts';
import { nextCheckAt, nextStep, type OwnStep, type Step } from './next-step.rules.ts';

/**
 * Runs the rules in a simulated world: from any state of the agent and the engine, step by step, the world reaches the desired state and
 * rests.
 */

const STEPS_MAX = 60;

interface Container {
  generation: number;
  state: ContainerState;
  /** An earlier release made it. */
  isOutdated: boolean;
}

interface Facts {
  /** The containers by their handles. */
  containers: Map<string, Container>;
  volume: boolean;
  held: boolean;
  canFreeze: boolean;
  /** The image of a deployment comes with a release command. */
  releases: boolean;
  /** The behaviour of a container after its start. */
  temper: 'well' | 'deaf' | 'crashes';
}

class World {
  agent: Agent;
  now = NOON.getTime();
  started: string | null = null;
  volumeLost = false;
  /** The value is undefined while there is more to do. */
  rested: Date | null | undefined;
  /** The deployments whose release command has ended. */
  readonly released = new Set<string>();
  /** The largest number of containers that were up at once, after any step. */
  mostUp = 0;
  readonly trail: string[] = [];

  constructor(
    events: AgentEvent[],
    readonly facts: Facts,
  ) {
    this.agent = given.stateAfter(...events);
  }

  step(): void {
    const actual = this.actual();
    const step = nextStep(this.agent, actual, this.rules(), new Date(this.now));
    this.trail.push(`${this.agent.status}:${step.do === 'record' ? step.record.type : step.do === 'own' ? step.own.do : step.do}`);
    if (step.do === 'rest') this.rested = nextCheckAt(this.agent, actual, this.rules(), new Date(this.now));
    this.does(step.do === 'own' ? step.own : step);
    this.mostUp = Math.max(
      this.mostUp,
      [...this.facts.containers.values()].filter(({ state }) => state === 'running' || state === 'frozen').length,
    );
  }

  get settled(): boolean {
    return this.rested !== undefined;
  }

  record(command: AgentCommand): void {
    for (const event of agentDecider.decide(command, this.agent, new Date(this.now)))
      this.agent = agentDecider.evolve(this.agent, event) as Agent;
  }

  private actual(): ActualState {
    const containers = [...this.facts.containers].map(([handle, { generation, state, isOutdated }]): ContainerView => ({
      agentId: 'a1',
      generation,
      deploymentId: 'd1',
      handle,
      ...(isOutdated ? { outdated: true } : {}),
      state,
      exitCode: state === 'exited' ? 1 : null,
      oomKilled: false,
      startedAt: null,
      finishedAt: null,
    }));
    const { volume, held } = this.facts;
    return { containers, volume, held, abandonedBy: null, lastActiveAt: null, started: this.started };
  }

  private rules(): StepRules {
    const { canFreeze } = this.facts;
    return { canFreeze, deepSleepAfterSeconds: 900, startTimeoutSeconds: 60 };
  }

  private does(step: Exclude<Step, { do: 'own' }> | OwnStep): void {
    const { containers } = this.facts;
    const { generation, handle } = 'container' in step ? step.container : { ...this.agent, handle: handleOf(this.agent.generation) };
    const found = containers.get(handle);
    const becomes = (state: ContainerState) => containers.set(handle, { generation, isOutdated: found?.isOutdated ?? false, state });
    if ('meanwhile' in step && step.meanwhile !== undefined) this.record(step.meanwhile);
    // oxlint-disable-next-line default-case -- the compiler sees that all are there
    switch (step.do) {
      case 'rest':
        return;
      case 'record':
        return this.record(step.record);
      case 'order':
        return this.record(orders[step.order]);
      case 'fail_exited':
      case 'resolve_image':
      case 'follow_release':
      case 'end_release':
        return this.doesOwn(step, found?.state, { generation, becomes });
      case 'make_volume':
        this.facts.volume = true;
        return;
      case 'remove_volume':
        this.facts.volume = false;
        this.volumeLost = true;
        return;
      case 'create':
        expect(containers.has(handle)).toBe(false);
        becomes('created');
        this.facts.volume = true;
        return;
      case 'replace':
        this.does({ do: 'stop', container: step.container });
        return this.does({ do: 'create' });
      case 'start':
        expect(['created', 'exited']).toContain(found?.state);
        expect([found?.isOutdated, this.facts.volume]).toEqual([false, true]);
        expect([...containers].filter(([other, { state }]) => other !== handle && (state === 'running' || state === 'frozen'))).toEqual([]);
        this.started = handle;
        becomes(this.facts.temper === 'crashes' ? 'exited' : 'running');
        return;
      case 'stop':
      case 'kill':
        becomes('exited');
        return;
      case 'freeze':
        expect([found?.state, this.facts.canFreeze]).toEqual(['running', true]);
        if (this.agent.status === 'stopping') expect(this.facts.held).toBe(false);
        becomes('frozen');
        return;
      case 'thaw':
        expect(found?.state).toBe('frozen');
        becomes('running');
        return;
      case 'remove':
        containers.delete(handle);
        return;
      case 'await_ready':
        expect([found?.state, found?.isOutdated]).toEqual(['running', false]);
        if (this.facts.temper === 'well') return this.record({ type: 'RecordReady', generation });
        this.now += step.withinMs;
        if (step.otherwise !== null) return this.record(step.otherwise);
        this.rested = null;
        return;
      case 'erase':
        expect([containers.size, this.facts.volume]).toEqual([0, false]);
        return this.record({ type: 'RecordDeleted' });
    }
  }

  private doesOwn(
    step: OwnStep,
    state: ContainerState | undefined,
    { generation, becomes }: { generation: number; becomes: (state: ContainerState) => void },
  ): void {
    const deploymentId = this.agent.deployment?.id ?? '';
    // oxlint-disable-next-line default-case -- the compiler sees that all are there
    switch (step.do) {
      case 'fail_exited':
        expect(state).toBe('exited');
        return this.record({ type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason: 'ended' });
      case 'resolve_image': {
        this.record({ type: 'RecordDeploymentStarted', deploymentId, deadlineAt });
        const releaseCommand = this.facts.releases ? ['migrate'] : null;
        return this.record({ type: 'RecordImage', deploymentId, image: 'i', imageName: 'i', command: [], commitSha: null, releaseCommand });
      }
      case 'follow_release':
        expect(state).toBe('running');
        // One that does not end is ended by the deadline.
        if (this.facts.temper === 'deaf') this.now = Date.parse(this.agent.deadlineAt ?? '');
        else becomes('exited');
        return;
      case 'end_release':
        expect(state).toBe('exited');
        expect(this.released.has(deploymentId)).toBe(false);
        this.released.add(deploymentId);
        if (this.facts.temper === 'well') return this.record({ type: 'RecordReleaseSucceeded', deploymentId, generation });
        return this.record({ type: 'RecordDeploymentFailure', deploymentId, kind: 'deployment', reason: 'exit code 1' });
    }
  }
}

const handleOf = (generation: number) => `g${generation}`;

const deadlineAt = new Date(NOON.getTime() + 86_400_000).toISOString();
const orders: Record<'sleep' | 'sleep_deeper' | 'wake' | 'restart', AgentCommand> = {
  sleep: { ...given.sleep('frozen'), deadlineAt } as AgentCommand,
  sleep_deeper: { ...given.sleep('stopped'), deadlineAt } as AgentCommand,
  wake: { ...given.wake, startTimeoutSeconds: 86_400 } as AgentCommand,
  restart: { type: 'RestartAgent', accountId: given.accountId, startTimeoutSeconds: 86_400 },
};

const histories: AgentEvent[][] = [
  ...Object.values(given.everyStatus),
  given.fallingAsleep,
  given.failedDeployment,
  given.deleting,
  given.deleted,
  [...given.created, given.requested('d1', 1)],
  [...given.sleeping, given.sleepRequested('stopped', 'deep')],
  [...given.active, given.sleepRequested('stopped'), given.slept('stopped')],
  [...given.active, given.sleepRequested('stopped')],
  [...given.active, given.requested('d2', 2)],
  [...given.active, given.requested('d2', 2), { type: 'DeploymentStarted', data: { deployment_id: 'd2' } }, given.imageResolved('d2')],
  [
    ...given.active,
    given.requested('d2', 2),
    { type: 'DeploymentStarted', data: { deployment_id: 'd2' } },
    given.imageResolved('d2'),
    { type: 'ContainerCreated', data: { deployment_id: 'd2', generation: 2 } },
    { type: 'DeploymentScriptsBegun', data: { deployment_id: 'd2', generation: 2 } },
  ],
  [...given.active, given.requested('d2', 2), given.releaseResolved('d2')],
  [...given.active, given.requested('d2', 2), given.releaseResolved('d2'), given.releaseBegun('d2', 2)],
  [...given.active, given.exited(3, 1, { generation: 2, at: given.later(4).toISOString() })],
  [...given.active, { type: 'AgentFailed', data: { during: 'active', kind: 'volume', reason: 'full' } }],
  ...(['timeout', 'runtime'] as const).map((kind): AgentEvent[] => [
    ...given.starting,
    { type: 'AgentFailed', data: { during: 'starting', kind, reason: 'no' } },
  ]),
];

const containerState = fc.constantFrom<ContainerState>('created', 'running', 'frozen', 'exited');
const facts: fc.Arbitrary<Facts> = fc.record({
  // There may be a current container, stale and outdated ones, or all of them. The rules never start two at once, but may find two that run.
  containers: fc
    .array(fc.record({ generation: fc.constantFrom(0, 1, 2, 3), state: containerState, isOutdated: fc.boolean() }), { maxLength: 3 })
    .map((list) => new Map(list.map((each) => [each.isOutdated ? `outdated-${each.generation}` : handleOf(each.generation), each]))),
  volume: fc.boolean(),
  held: fc.boolean(),
  canFreeze: fc.boolean(),
  releases: fc.boolean(),
  temper: fc.constantFrom('well' as const, 'deaf' as const, 'crashes' as const),
});

/** A command that arrives while the steps run. */
const asked: fc.Arbitrary<AgentCommand | null> = fc.constantFrom(
  null,
  given.ask('StartAgent'),
  given.ask('StopAgent'),
  given.ask('RestartAgent'),
  given.sleep('frozen'),
  given.sleep('stopped'),
  given.wake,
  given.deploy('d9'),
  { type: 'DeleteAgent', accountId: given.accountId },
);

const situation = fc.record({
  history: fc.constantFrom(...histories),
  facts,
  asks: fc.array(fc.record({ after: fc.integer({ min: 0, max: 8 }), command: asked }), { maxLength: 3 }),
});

/** Runs steps until the agent rests for good, and returns their number. When it rests until a time, the clock advances to that time. */
function untilSettled(world: World, asks: { after: number; command: AgentCommand | null }[]): number {
  const deletedAtLast = () => ['deleting', 'deleted'].includes(world.agent.status);
  for (let steps = 1; steps <= STEPS_MAX; steps += 1) {
    for (const { after, command } of asks) if (after === steps && command !== null) tryIt(() => world.record(command));
    world.rested = undefined;
    world.step();
    if (world.volumeLost) expect(deletedAtLast()).toBe(true);
    if (!world.settled || asks.some(({ after }) => after > steps)) continue;
    if (!isInTransit(world.agent)) return steps;
    // Only a backoff and a sleep that waits for work rest in transit, and both give a time.
    expect(world.rested).toBeInstanceOf(Date);
    world.now = Math.max(world.now + 60_000, (world.rested ?? NOON).getTime());
  }
  throw new Error(`it does not come to rest: ${world.trail.slice(-12).join(' → ')}`);
}

function tryIt(call: () => void): void {
  try {
    call();
  } catch (error) {
    if ((error as Error).name !== 'Refusal') throw error;
  }
}

/** Expects the containers that the status promises. */
function expectAsPromised({ agent, facts: { containers, volume, canFreeze } }: World): void {
  const mine = containers.get(handleOf(agent.generation))?.state;
  if (agent.status === 'active') expect(mine).toBe('running');
  if (agent.status === 'stopped') expect([undefined, 'created', 'exited']).toContain(mine);
  if (agent.status === 'sleeping' && agent.sleepDepth === 'frozen')
    expect([mine, canFreeze]).toEqual(['frozen', mine === 'frozen' && canFreeze]);
  if (agent.status === 'sleeping' && agent.sleepDepth === 'stopped') expect([undefined, 'created', 'exited']).toContain(mine);
  if (agent.status === 'deleted') expect([containers.size, volume]).toEqual([0, false]);
  for (const handle of containers.keys()) expect(handle).toBe(handleOf(agent.generation));
}

it('brings every agent to its desired state with at most one container, and keeps its volume until it is deleted', () => {
  fc.assert(
    fc.property(situation, ({ history, facts: { containers, ...others }, asks }) => {
      const world = new World(history, { ...others, containers: new Map(containers) });
      untilSettled(world, asks);
      expectAsPromised(world);
    }),
    { numRuns: 1_500 },
  );
});

it('does not change an agent at rest in further passes', () => {
  fc.assert(
    fc.property(situation, ({ history, facts: { containers, ...others } }) => {
      const world = new World(history, { ...others, containers: new Map(containers) });
      untilSettled(world, []);
      const before = JSON.stringify([world.agent, [...world.facts.containers], world.rested]);
      world.step();
      if (world.facts.temper === 'well' || world.agent.status !== 'error')
        expect(JSON.stringify([world.agent, [...world.facts.containers], world.rested])).toBe(before);
    }),
    { numRuns: 700 },
  );
});

it('never runs two containers at once if there was at most one', () => {
  fc.assert(
    fc.property(situation, ({ history, facts: { containers, ...others }, asks }) => {
      const [first] = containers;
      const world = new World(history, { ...others, containers: new Map(first === undefined ? [] : [first]) });
      untilSettled(world, asks);
      expect(world.mostUp).toBeLessThanOrEqual(1);
    }),
    { numRuns: 1_000 },
  );
});
