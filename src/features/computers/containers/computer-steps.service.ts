import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import { computerIdOf, type KindSteps, type Pass, type Seen, type Work } from '../../../sandboxes/index.ts';
import { deadlineSignal, EngineView } from '../../../sandboxes/services.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import { DesktopPool } from '../live/desktop-pool.service.ts';
import { ComputerImages } from './computer-images.service.ts';
import { ComputerRecords } from './computer-records.service.ts';
import { ContainerTimes } from './container-times.service.ts';
import type { OwnStep } from './next-step.rules.ts';

/** The longest time for which the keys and buttons of a desktop are waited for, which batches of callers may have, ms. */
const RELEASE_TIMEOUT_MS = 30_000;

type ComputerWork = Work<Computer, ComputerRecord>;

/** Does what is a computer's own: the image of all of them, the memory that they take, and the engine's times. */
@Injectable()
export class ComputerSteps implements KindSteps<Computer, ComputerRecord, OwnStep> {
  constructor(
    private readonly records: ComputerRecords,
    private readonly images: ComputerImages,
    private readonly desktops: DesktopPool,
    private readonly times: ContainerTimes,
    private readonly engine: EngineView,
  ) {}

  /** Records an outcome with the engine's own time. A container that does not run any more takes no memory. */
  async record({ sandboxId }: Pass, seen: Seen<Computer>, record: ComputerRecord): Promise<boolean> {
    const dated = await this.times.withEngineTime(sandboxId, seen.state, record);
    if (record.type === 'RecordExit' || (record.type === 'RecordSlept' && record.depth === 'stopped'))
      await this.records.releaseMemory(sandboxId);
    return this.records.record(sandboxId, seen, dated);
  }

  whenReady(work: ComputerWork, container: ContainerView): Promise<boolean> {
    return work.record(work.seen, { type: 'RecordReady', generation: container.generation }, container);
  }

  executeOwn(work: ComputerWork, step: OwnStep): Promise<boolean> {
    return step.do === 'resolve_image' ? this.resolveImage(work) : this.releaseInput(work, step.owner);
  }

  /**
   * Releases the keys and buttons that a replica which has ended may have left pressed. May be repeated. Throws `busy`, `desktop_unreachable`
   * and `desktop_timeout`, which is tried again.
   */
  private async releaseInput({ pass, seen, recordMeanwhile }: ComputerWork, owner: string): Promise<boolean> {
    const { accountId, generation } = seen.state;
    const computer = { computerId: computerIdOf(pass.sandboxId), accountId, generation };
    await pass.withoutSlot(() => this.desktops.releaseInput(computer, AbortSignal.any([pass.signal, timeoutSignal(RELEASE_TIMEOUT_MS)])));
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
        this.engine.runUntilStale(pass, false, isStale, (stale) => this.images.resolve(AbortSignal.any([stale, late]))),
      );
      const now = await this.records.load(pass.sandboxId);
      return now !== null && (await record(now, { type: 'RecordImage', image, imageName: name }, null));
    } catch (error) {
      if (pass.signal.aborted || !(await isOver())) throw error;
      return false;
    }
  }
}
