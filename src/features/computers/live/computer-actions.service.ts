/*
 * Runs batches of actions on the desktops of computers, for callers of the API.
 *
 * It owns the checks before and during a batch. It does not own the meaning of actions (desktop/actions/), their execution
 * (desktop/driver/), the wake (`LiveComputers`), or who is connected (viewer/).
 *
 * Invariants:
 * A1. A batch is checked as a whole before the computer is woken, against the screen that the computer is said to have. If the screen turns
 *     out to have another size, the batch is checked again against that, before anything is done.
 * A2. Nothing is done while a person controls the computer alone. It is checked when the batch gets its turn, and a batch that takes longer
 *     than SHORT_BATCH_MS is stopped when a person takes control.
 * A3. A batch whose first action failed to reach the desktop, and that changed nothing, is refused like one that never ran.
 * A4. A batch is recorded before its caller is answered.
 */

import { Injectable } from '@nestjs/common';

import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { Batch, BatchStep, Size } from '../../../desktop/actions/canonical-actions.ts';
import { normaliseBatch } from '../../../desktop/actions/normalise-batch.ts';
import type { BatchOutcome } from '../../../desktop/driver/batch-runner.ts';
import { ActionRecorder } from './action-recorder.service.ts';
import type { ComputerCall } from './computer-call.ts';
import { DesktopPool, type DesktopInUse } from './desktop-pool.service.ts';
import { type AwakeComputer, LiveComputers } from './live-computers.service.ts';
import { ViewerControl } from './viewer-control.service.ts';

/** The most errors that the sentence about a batch names. */
const NAMED_ERRORS_MAX = 5;
/** A2: batches shorter than this, in ms, are not watched for a person who takes control. */
const SHORT_BATCH_MS = 100;

/** Runs batches of actions on the desktops of computers, which it wakes first, and records them. */
@Injectable()
export class ComputerActions {
  constructor(
    private readonly computers: LiveComputers,
    private readonly desktops: DesktopPool,
    private readonly viewers: ViewerControl,
    private readonly recorder: ActionRecorder,
  ) {}

  /**
   * Runs the actions in the body, and returns what `answer` makes of their outcome. Throws `invalid_action`, `coordinate_out_of_bounds`,
   * `unknown_key` and `batch_too_long` before the computer is woken; then what waking it throws, `human_in_control`, `busy`,
   * `desktop_unreachable` and `desktop_timeout`, if nothing was done.
   */
  async run<T>(call: ComputerCall, body: unknown, answer: (outcome: BatchOutcome) => T): Promise<T> {
    const expected = await this.checkAgainstExpected(call, body);
    return this.computers.whileAwake({ ...call, trigger: 'actions' }, (computer, woken) => {
      if (woken) call.onWoken();
      return this.desktops.use(computer, call.signal, (desktop) => this.runOnDesktop({ call, computer, body, expected }, desktop, answer));
    });
  }

  /** A1: checks the body against the screen that the computer is said to have. */
  private async checkAgainstExpected(call: ComputerCall, body: unknown): Promise<ExpectedBatch> {
    const screen = await this.computers.screenOf(call);
    try {
      return { screen, batch: batchOf(body, screen) };
    } catch (error) {
      // A1: a program may have changed the size of the screen, which is only known once the desktop is connected.
      if (screen.isAwake && error instanceof ProblemError && error.code === 'coordinate_out_of_bounds') return { screen, batch: null };
      throw error;
    }
  }

  /** A2: returns a signal that stops the batch when a person takes control. It is watched from `begin` on. */
  private watchControl(computerId: string): Disposable & { stop: AbortSignal; begin: () => void } {
    const [stop, over] = [new AbortController(), new AbortController()];
    let timer: NodeJS.Timeout | undefined;
    const watch = async () => {
      if (await this.viewers.untilInControl(computerId, over.signal)) stop.abort(humanInControl());
    };
    return {
      stop: stop.signal,
      // Too many batches may be watched already; this one was checked when it began.
      begin: () => void (timer = setTimeout(() => void watch().catch(() => undefined), SHORT_BATCH_MS)),
      [Symbol.dispose]: () => {
        clearTimeout(timer);
        over.abort();
      },
    };
  }

  private async runOnDesktop<T>(
    order: BatchContext,
    { driver, signal, reserveImage }: DesktopInUse,
    answer: (outcome: BatchOutcome) => T,
  ): Promise<T> {
    const { call, computer, body, expected } = order;
    let recorded = Promise.resolve();
    using control = this.watchControl(computer.computerId);
    const batchFor = async (size: Size) => {
      // A2. This replica follows the log, so it is enough to have read the events up to the beginning of the request.
      if (await this.viewers.inControl(computer.computerId, call.context.seenUpTo)) throw humanInControl();
      control.begin();
      const isExpected = size.width === expected.screen.width && size.height === expected.screen.height;
      const batch = (isExpected ? expected.batch : null) ?? batchOf(body, size);
      // It is recorded while the actions run.
      recorded = this.recorder.countBatch(call, batch.steps.map(nameOf), screenshotsIn(batch));
      return batch;
    };
    const outcome = await driver.run({ batchFor, reserveImage, stop: control.stop }, signal);
    // A4
    await recorded;
    refuseIfNothingWasDone(outcome);
    return answer(outcome);
  }
}

function humanInControl(): ProblemError {
  return new ProblemError('human_in_control', 'A person controls the computer alone. Wait until that session is closed.');
}

interface BatchContext {
  call: ComputerCall;
  computer: AwakeComputer;
  body: unknown;
  expected: ExpectedBatch;
}

/** The batch for the screen that the computer is said to have; null if the batch does not fit on it. */
interface ExpectedBatch {
  screen: Size;
  batch: Batch | null;
}

/** Throws the refusal of a body that is not a batch for this screen. */
function batchOf(body: unknown, size: Size): Batch {
  const normalised = normaliseBatch(body, size);
  if (normalised.ok) return normalised.batch;
  const { code, errors } = normalised;
  const named = errors
    .slice(0, NAMED_ERRORS_MAX)
    .map(({ index, field, message }) => `${index === null ? '' : `actions[${index}].`}${field} ${message}`);
  const rest = errors.length - named.length;
  throw new ProblemError(code, `${named.join('; ')}${rest === 0 ? '' : `; and ${rest} more`}.`, { errors });
}

/** A3: throws if the batch began with reading the screen and that failed. */
function refuseIfNothingWasDone({ completed, results }: BatchOutcome): void {
  const [first] = results;
  if (completed > 0 || first?.error === undefined || !readingActions.has(first.action)) return;
  const { code, message } = first.error;
  if (code === 'desktop_unreachable' || code === 'desktop_timeout') throw new ProblemError(code, message);
}

const readingActions: ReadonlySet<string> = new Set(['screenshot', 'zoom', 'cursor_position']);

function nameOf({ name }: BatchStep): string {
  return name;
}

function screenshotsIn({ steps, shot }: Batch): number {
  const inSteps = steps.filter(({ action, shot: after }) => after !== null || action.kind === 'screenshot' || action.kind === 'zoom');
  return inSteps.length + (shot === null ? 0 : 1);
}
