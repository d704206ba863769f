import { Injectable } from '@nestjs/common';

import type { ContainerView } from '../../../runtime/container.ts';
import type { ContainerKind, KindRules, KnownSandbox, Pass, SandboxOfAccount, Seen, Work } from '../../../sandboxes/index.ts';
import { deadlineSignal, EngineView } from '../../../sandboxes/services.ts';
import type { ComputerRecord } from '../aggregate/computer-records.decider.ts';
import { isInTransit, type Computer } from '../aggregate/computer-state.decider.ts';
import { isLack } from '../memory/memory-lacks.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import { ComputerContainers } from './computer-containers.service.ts';
import { ComputerRecords, SAGA } from './computer-records.service.ts';
import { EveryComputer } from './every-computer.service.ts';
import { ContainerTimes } from './container-times.service.ts';
import { nextCheckAt, nextStep, type OwnStep } from './next-step.decider.ts';

type ComputerWork = Work<Computer, ComputerRecord>;

/** Tells the reconciler what is a computer's own: the image of all of them, the memory that they take, and the engine's times. */
@Injectable()
export class ComputerKind implements ContainerKind<Computer, ComputerRecord, OwnStep> {
  readonly kind = 'computer';
  readonly saga = SAGA;
  readonly readModels = [computersProjection.name];
  readonly rules: KindRules<Computer, ComputerRecord, OwnStep>;

  constructor(
    readonly records: ComputerRecords,
    readonly containers: ComputerContainers,
    private readonly times: ContainerTimes,
    private readonly rows: EveryComputer,
    private readonly engine: EngineView,
  ) {
    this.rules = {
      nextStep: (computer, actual, rules, now) => nextStep(computer, actual, rules, now, containers.images.known),
      nextCheckAt,
      isInTransit,
      isBeingDeleted: ({ status }) => status === 'deleting',
      isGone: ({ status }) => status === 'deleted',
      isOutdated: (before, now) => now.status !== before.status || now.generation !== before.generation,
      statusOf: ({ status }) => status,
      wantedStates({ status, sleepDepth, wantedSleep }) {
        if (status === 'awake') return ['running'];
        return status === 'asleep' && sleepDepth === 'frozen' && wantedSleep !== 'stopped' ? ['frozen'] : [];
      },
      keepsLook: ({ status }) => status === 'creating',
      waitsForEngine: () => true,
      failure: (_computer, _kind, reason) =>
        isLack(reason) ? { type: 'RecordNoCapacity', reason } : { type: 'RecordFailure', kind: 'runtime', reason },
    };
  }

  thatMayWrite(since: Date): Promise<SandboxOfAccount[]> {
    return this.rows.thatMayWrite(since);
  }

  page(after: string | null, limit: number): Promise<KnownSandbox<Computer>[]> {
    return this.rows.page(after, limit);
  }

  live(): Promise<string[]> {
    return this.rows.live();
  }

  /** The image that this process makes computers of is needed as well: the first of them has it before its row says so. */
  async neededImages(digests: readonly string[]): Promise<ReadonlySet<string>> {
    const needed = await this.rows.neededImages(digests);
    const { known } = this.containers.images;
    return known !== null && digests.includes(known) ? new Set([...needed, known]) : needed;
  }

  /** The image of computers is nobody's to claim: the runtime keeps the one that it makes them of. */
  isClaiming(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /** Records an outcome with the engine's own time. A container that does not run any more takes no memory. */
  async record({ sandboxId }: Pass, seen: Seen<Computer>, record: ComputerRecord): Promise<boolean> {
    const dated = await this.times.dated(sandboxId, seen.state, record);
    if (record.type === 'RecordExit' || (record.type === 'RecordSlept' && record.depth === 'stopped'))
      await this.records.releaseMemory(sandboxId);
    return this.records.record(sandboxId, seen, dated);
  }

  whenReady(work: ComputerWork, container: ContainerView): Promise<boolean> {
    return work.record(work.seen, { type: 'RecordReady', generation: container.generation }, container);
  }

  takeOwn(work: ComputerWork, step: OwnStep): Promise<boolean> {
    return step.do === 'resolve_image' ? this.resolveImage(work) : this.releaseInput(work, step.owner);
  }

  /** Releases what the replica may have left pressed. May be repeated. Throws if the desktop does not let it, which is tried again. */
  private async releaseInput({ pass, seen, recordMeanwhile }: ComputerWork, owner: string): Promise<boolean> {
    await pass.withoutSlot(() => this.containers.releaseInput(pass.sandboxId, seen.state, pass.signal));
    pass.assertLease();
    // Events of callers meanwhile are no reason to repeat it.
    await recordMeanwhile({ type: 'RecordInputReleased', owner });
    return true;
  }

  /** Has the image made ready. That may take long, and other events on the stream meanwhile are no reason to repeat it. */
  private async resolveImage({ pass, seen, isStale, isOver, record }: ComputerWork): Promise<boolean> {
    const late = deadlineSignal(seen.state, this.engine.now());
    try {
      const { image, name } = await pass.withoutSlot(() =>
        this.engine.runUntilStale(pass, false, isStale, (stale) => this.containers.images.resolve(AbortSignal.any([stale, late]))),
      );
      const now = await this.records.load(pass.sandboxId);
      return now !== null && (await record(now, { type: 'RecordImage', image, imageName: name }, null));
    } catch (error) {
      if (pass.signal.aborted || !(await isOver())) throw error;
      return false;
    }
  }
}
