import type { Duplex } from 'node:stream';

import type { Size } from '../../src/desktop/actions/canonical-actions.ts';
import { ActionRecorder } from '../../src/features/computers/live/action-recorder.service.ts';
import { ComputerActions } from '../../src/features/computers/live/computer-actions.service.ts';
import type { ComputerCall } from '../../src/features/computers/live/computer-call.ts';
import { ComputerScreens } from '../../src/features/computers/live/computer-screens.service.ts';
import type { DesktopDialler } from '../../src/features/computers/live/desktop-dialler.service.ts';
import { DesktopPool } from '../../src/features/computers/live/desktop-pool.service.ts';
import type { DesktopTurns } from '../../src/features/computers/live/desktop-turns.service.ts';
import type {
  AwakeComputer,
  ComputerNeed,
  ExpectedScreen,
  LiveComputers,
} from '../../src/features/computers/live/live-computers.service.ts';
import { ViewerControl } from '../../src/features/computers/live/viewer-control.service.ts';
import type { ComputerCommand } from '../../src/features/computers/aggregate/computers.decider.ts';
import type { Computers } from '../../src/features/computers/aggregate/computers.service.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { ProblemError } from '../../src/kernel/errors/problem-error.ts';
import type { StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import type { LogFollower, LogListener } from '../../src/eventsourcing/log/log-follower.ts';
import { untilTrue } from './until.ts';

/** The computers of a test, which are awake unless the test changes that. */
export class KnownComputers implements Pick<LiveComputers, 'screenOf' | 'isAwake' | 'whileAwake'> {
  readonly asleep = new Set<string>();
  readonly owners = new Map<string, string>();
  /** The number of uses that keep a computer awake. */
  held = 0;

  constructor(private readonly display: Size = { width: 320, height: 240 }) {}

  async screenOf({ computerId, accountId }: { computerId: string; accountId: string }): Promise<ExpectedScreen> {
    if ((this.owners.get(computerId) ?? accountId) !== accountId)
      throw new ProblemError('computer_not_found', 'There is no such computer.');
    return { ...this.display, isAwake: !this.asleep.has(computerId) };
  }

  async isAwake(computerId: string): Promise<boolean> {
    return !this.asleep.has(computerId);
  }

  async whileAwake<T>(need: ComputerNeed, work: (computer: AwakeComputer, woken: boolean) => Promise<T>): Promise<T> {
    const { computerId, accountId } = need;
    await this.screenOf(need);
    const isAsleep = this.asleep.has(computerId);
    if (isAsleep && !need.wake) throw new ProblemError('computer_asleep', 'The computer is asleep.');
    this.asleep.delete(computerId);
    this.held += 1;
    try {
      return await work({ computerId, accountId, generation: 1 }, isAsleep);
    } finally {
      this.held -= 1;
    }
  }
}

/** Delivers events to the followers of the log. */
export class FakeEventLog {
  private listener: LogListener | null = null;
  readonly follower = {
    listen: (listener: LogListener) => {
      this.listener = listener;
      return () => (this.listener = null);
    },
  } as unknown as LogFollower;

  emit(type: string, computerId: string, data: Record<string, unknown> = {}): void {
    this.listener?.onEvents([{ type, stream: `computer-${computerId}`, data } as unknown as StoredEvent], '1'.padStart(20, '0'));
  }

  skip(): void {
    this.listener?.onGap?.('1'.padStart(20, '0'));
  }
}

/** Stores the records of acts. */
export class RecordedActs {
  readonly acts: (Omit<Acted, 'type'> & { computerId: string; actor: string })[] = [];
  /** Called before each record is stored. */
  onRecord: () => Promise<void> = () => Promise.resolve();

  readonly computers = {
    execute: async (computerId: string, { actions, batches, screenshots, since, until }: Acted, { actor }: ComputerCall['context']) => {
      await this.onRecord();
      this.acts.push({ actions, batches, screenshots, since, until, computerId, actor: actor.id });
    },
  } as unknown as Computers;
}

type Acted = Extract<ComputerCommand, { type: 'RecordActed' }>;

const turnsOfOneReplica = {
  acquire: async () => ({ leftInput: null, lost: new AbortController().signal, end: async () => undefined }),
  release: async () => undefined,
  deleteInput: async () => undefined,
} as unknown as DesktopTurns;

/** Everything between a route and the desktops that `dial` reaches. */
export class DesktopFixture {
  readonly events = new FakeEventLog();
  readonly acts = new RecordedActs();
  readonly inControl = new Set<string>();
  readonly viewers = new ViewerControl();
  readonly pool: DesktopPool;
  readonly recorder: ActionRecorder;
  readonly actions: ComputerActions;
  readonly screens: ComputerScreens;

  constructor(
    dial: (computer: AwakeComputer, signal: AbortSignal) => Duplex | Promise<Duplex>,
    readonly computers: KnownComputers = new KnownComputers(),
  ) {
    const dialler = { dial: async (computer: AwakeComputer, signal: AbortSignal) => dial(computer, signal) } as unknown as DesktopDialler;
    const live = computers as unknown as LiveComputers;
    this.pool = new DesktopPool(dialler, this.events.follower, live, turnsOfOneReplica);
    this.pool.onModuleInit();
    const inControl = async (computerId: string) => this.inControl.has(computerId);
    const untilInControl = async (computerId: string, signal: AbortSignal) => {
      await untilTrue(() => signal.aborted || this.inControl.has(computerId));
      return inControl(computerId);
    };
    this.viewers.register({ inControl, untilInControl });
    this.recorder = new ActionRecorder(this.acts.computers);
    this.actions = new ComputerActions(live, this.pool, this.viewers, this.recorder);
    this.screens = new ComputerScreens(live, this.pool, this.recorder);
  }

  async close(): Promise<void> {
    await this.recorder.beforeApplicationShutdown();
    this.pool.onApplicationShutdown();
  }
}

/** Returns a call of the account acme to the computer. */
export function callTo(computerId: string, call: Partial<ComputerCall> = {}): ComputerCall {
  return {
    computerId,
    accountId: 'acme',
    context: systemContext('a model', 'acme'),
    wake: true,
    signal: new AbortController().signal,
    onWoken: () => undefined,
    ...call,
  };
}
