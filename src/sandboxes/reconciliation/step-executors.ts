import { allSettledPair } from '../../kernel/async/all-settled-pair.ts';
import type { ContainerView } from '../../runtime/container.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { Step } from '../lifecycle/steps.rules.ts';
import type { ContainerKind, PassWork } from './container-kind.ts';
import type { ContainerSteps } from './container-steps.service.ts';
import type { EngineView } from './engine-view.service.ts';
import type { Pass } from './pass.ts';

/** The longest wait for a turn, in milliseconds, after which the sandbox is not read again. */
const TURN_CAME_AT_ONCE_MS = 50;

/** Executes one step. Returns false if a wait was interrupted or the decision is stale. */
type Executor<S extends Sandbox, R, One> = (work: PassWork<S, R>, step: One) => Promise<boolean>;

type Executors<S extends Sandbox, R, Own> = {
  [Do in Step['do']]: Executor<S, R, Extract<Step<R, Own>, { do: Do }>>;
};

/** Executes the steps of one kind of sandboxes: one executor for each. */
export class StepExecutors<S extends Sandbox, R extends { type: string }, Own extends { do: string }> {
  private readonly executors: Executors<S, R, Own> = {
    rest: () => Promise.resolve(true),
    record: (work, { record }) => work.record(work.seen, record, null),
    order: ({ pass, seen }, { order }) => this.kind.records.order(pass.sandboxId, seen, order),
    erase: ({ pass, seen }) => this.kind.records.erase(pass.sandboxId, seen),
    own: (work, { own }) => this.kind.steps.executeOwn(work, own),
    create: (work) => this.make(work, () => this.steps.create(this.kind.containers, work.pass, work.seen.state)),
    replace: (work, { container }) =>
      this.make(work, () => this.steps.replace(this.kind.containers, work.pass, work.seen.state, container)),
    start: (work, { container, meanwhile }) => this.start(work, container, meanwhile),
    await_ready: (work, step) => this.awaitReady(work, step),
    remove: (work, { container, gently }) =>
      waiting(work, () => this.steps.remove(this.kind.containers, work.pass, work.seen.state, container, gently)),
    stop: (work, { container }) => waiting(work, () => this.steps.stop(this.kind.containers, work.seen.state, container)),
    freeze: (_work, { container }) => succeeded(this.steps.freeze(container)),
    thaw: (_work, { container }) => succeeded(this.steps.thaw(container)),
    kill: (_work, { container }) => succeeded(this.steps.kill(container)),
    make_volume: (work) => waiting(work, () => this.steps.makeVolume(work.pass.sandboxId)),
    remove_volume: (work) => waiting(work, () => this.steps.removeVolume(work.pass.sandboxId)),
  };

  constructor(
    private readonly kind: ContainerKind<S, R, Own>,
    private readonly engine: EngineView,
    private readonly steps: ContainerSteps,
  ) {}

  /** Executes a step. Returns false if a wait was interrupted or the decision is stale. */
  execute(work: PassWork<S, R>, step: Step<R, Own>): Promise<boolean> {
    const executor = this.executors[step.do] as Executor<S, R, Step<R, Own>>;
    return executor(work, step);
  }

  private make(work: PassWork<S, R>, make: () => Promise<ContainerView>): Promise<boolean> {
    return this.runWithinLimit(work, async () => {
      work.pass.made = await make();
    });
  }

  private async start(work: PassWork<S, R>, container: ContainerView, meanwhile: R | undefined): Promise<boolean> {
    const { pass, seen } = work;
    const starting = this.runWithinLimit(work, async () => {
      pass.started = container.handle;
      // The start of a service that was killed may only now have come into effect, without the variables.
      if (!(await this.steps.start(this.kind.containers, pass, seen.state, container))) pass.started = null;
    });
    const [started] = await allSettledPair(starting, work.recordMeanwhile(meanwhile));
    return started;
  }

  /** Creates or starts a container as soon as the engine may start one more. Returns false if the sandbox changed during the wait. */
  private runWithinLimit({ pass, seen, isStale }: PassWork<S, R>, run: () => Promise<void>): Promise<boolean> {
    const asked = performance.now();
    return pass.withoutSlot(() =>
      this.engine.runWithinLimit(pass, seen.state.accountId, 'start', pass.signal, async () => {
        const waited = performance.now() - asked > TURN_CAME_AT_ONCE_MS;
        if (waited && (await isStale())) return false;
        pass.assertLease();
        await run();
        return true;
      }),
    );
  }

  private async awaitReady(work: PassWork<S, R>, step: Extract<Step<R, Own>, { do: 'await_ready' }>): Promise<boolean> {
    const { pass, seen } = work;
    const { container, withinMs, otherwise } = step;
    const { containers } = this.kind;
    let cutShort = false;
    const isReady = await pass.withoutSlot(() =>
      this.engine.runUntilStale(pass, true, work.isStale, async (signal) => {
        const answer = await containers.isReady(seen.state, container, withinMs, signal);
        cutShort = signal.aborted;
        return answer;
      }),
    );
    if (isReady) return this.kind.steps.whenReady(work, container);
    if (cutShort || otherwise === null) return false;
    const why = await pass.withoutSlot(() => containers.explainUnready(seen.state, container));
    const failure =
      why === null || !('reason' in otherwise) ? otherwise : { ...otherwise, reason: explained(String(otherwise.reason), why) };
    return work.record(seen, failure, container);
  }
}

/** Runs work that mostly waits, without holding up other passes. */
async function waiting({ pass }: { pass: Pass }, work: () => Promise<void>): Promise<boolean> {
  await pass.withoutSlot(work);
  return true;
}

/** Returns the sentence, continued by what explains it. */
function explained(sentence: string, why: string): string {
  return `${sentence.replace(/\.$/, '')}: ${why}`;
}

async function succeeded(work: Promise<void>): Promise<boolean> {
  await work;
  return true;
}
