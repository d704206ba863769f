import { fold, NOON } from '../../../test/support/decider-spec.ts';
import { freePass } from '../../../test/support/saga-pass.ts';
import { until } from '../../../test/support/until.ts';
import type { Activity } from '../../sandboxes/services.ts';
import type { CommandState } from '../../runtime/agent-commands.ts';
import type { ContainerRuntime } from '../../runtime/runtime.ts';
import type { Sagas } from '../../eventsourcing/sagas/saga.ts';
import type { CommandObservation } from './command-ends.ts';
import { CommandFollowers } from './command-followers.service.ts';
import type { CommandInspector, CommandsInspection } from './command-inspector.service.ts';
import type { CommandRecords } from './command-records.service.ts';
import { type AgentCommandsState, commandsDecider, type CommandsOrder } from './commands.decider.ts';
import type { CommandEvent } from './commands.events.ts';
import { CommandsSaga } from './commands.saga.ts';

const at = (seconds: number) => new Date(NOON.getTime() + seconds * 1_000);
const startedAs = (command_id: string, keepAwake: number | null = null): CommandEvent => ({
  type: 'AgentCommandStarted',
  data: {
    agent_id: 'agent',
    command_id,
    generation: 1,
    command: { v: 1, key: 1, iv: 'iv', ct: 'ct' },
    started_at: NOON.toISOString(),
    starts_by: at(20).toISOString(),
    keep_awake_until: keepAwake === null ? null : at(keepAwake).toISOString(),
  },
});
const ENDED: CommandObservation = { kind: 'ended', end: 'exited', exitCode: 3, outputBytes: 5, droppedBytes: 0 };

/** One agent whose commands are looked at, without a log, an engine and a database. */
class Bed {
  state: AgentCommandsState;
  readonly events: CommandEvent[] = [];
  readonly kept: (Date | null)[] = [];
  readonly removed: string[] = [];
  readonly woken: string[] = [];
  readonly waits = new Map<string, { end: (state: CommandState | null) => void; signal: AbortSignal }>();
  seen: Record<string, CommandObservation> = {};
  running: CommandsInspection['running'] = { handle: 'handle', commandIds: [] };
  readonly saga: CommandsSaga;

  constructor(...events: CommandEvent[]) {
    this.state = fold(commandsDecider, events);
    const records = {
      load: async () => this.state,
      execute: async (_: string, order: CommandsOrder) => {
        const decided = commandsDecider.decide(order, this.state, NOON);
        this.events.push(...decided);
        this.state = decided.reduce(commandsDecider.evolve, this.state);
        return this.state;
      },
    };
    const looks = {
      inspect: async (_: string, commands: { id: string }[]) => ({
        account: 'acme',
        now: NOON,
        observations: new Map(commands.map((command) => [command, this.seen[command.id] ?? { kind: 'runs' }])),
        running: this.running,
      }),
      remove: async (_: string, id: string) => void this.removed.push(id),
    };
    const ended = (_: string, id: string, signal: AbortSignal) =>
      new Promise<CommandState | null>((resolve, reject) => {
        this.waits.set(id, { end: resolve, signal });
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    const sagas = { wake: (_: string, key: string) => void this.woken.push(key) } as unknown as Sagas;
    const followers = new CommandFollowers({ commands: { ended } } as unknown as ContainerRuntime, sagas);
    const activity = { keepAwakeOnly: async (_: string, time: Date | null) => void this.kept.push(time) };
    this.saga = new CommandsSaga(
      sagas,
      records as unknown as CommandRecords,
      looks as unknown as CommandInspector,
      followers,
      activity as unknown as Activity,
    );
  }

  pass(handover = new AbortController().signal): Promise<Date | null> {
    return this.saga.reconcile('agent', freePass({ handover }));
  }

  /** Returns the commands whose ends are waited for. */
  get followed(): string[] {
    return [...this.waits].filter(([, { signal }]) => !signal.aborted).map(([id]) => id);
  }
}

describe('the commands whose states the saga records', () => {
  it('have their ends recorded once, and the others are followed', async () => {
    const bed = new Bed(startedAs('one'), startedAs('two'));
    bed.seen = { one: ENDED };
    expect(await bed.pass()).toBeNull();
    expect(await bed.pass()).toBeNull();
    expect(bed.events).toMatchObject([{ type: 'AgentCommandEnded', data: { command_id: 'one', exit_code: 3, output_bytes: 5 } }]);
    expect(bed.followed).toEqual(['two']);
  });

  it('are inspected again as soon as one of them ends', async () => {
    const bed = new Bed(startedAs('one'));
    await bed.pass();
    bed.waits.get('one')?.end({ status: 'exited', exitCode: 0, outputBytes: 0, droppedBytes: 0 });
    await until('the saga is woken', () => (bed.woken.length > 0 ? true : undefined));
    expect(bed.woken).toEqual(['agent']);
  });

  it('are left alone while the container is frozen, and followed again afterwards', async () => {
    const bed = new Bed(startedAs('one'));
    await bed.pass();
    const frozen: Bed['running'] = null;
    [bed.seen, bed.running] = [{ one: { kind: 'unknown', until: null } }, frozen];
    expect(await bed.pass()).toBeNull();
    expect(bed.followed).toEqual([]);
    [bed.seen, bed.running] = [{}, { handle: 'handle', commandIds: ['one'] }];
    await bed.pass();
    expect(bed.followed).toEqual(['one']);
    expect(bed.events).toEqual([]);
  });

  it('are not followed here any more once another process takes over', async () => {
    const bed = new Bed(startedAs('one'));
    const handover = new AbortController();
    await bed.pass(handover.signal);
    handover.abort();
    expect(bed.followed).toEqual([]);
    await bed.pass();
    expect([bed.followed, bed.woken]).toEqual([['one'], []]);
  });

  it('are inspected again soon if one does not exist yet, and once its start must be over', async () => {
    const bed = new Bed(startedAs('one'), startedAs('two'));
    bed.seen = { one: { kind: 'unknown', until: at(20) }, two: { kind: 'unknown', until: at(15) } };
    expect(await bed.pass()).toEqual(at(15));
    expect(bed.followed).toEqual(['one', 'two']);
    bed.waits.get('one')?.end(null);
    await until('the saga is woken', () => (bed.woken.length > 0 ? true : undefined));
  });

  it('keep the agent awake for as long as the running ones request, which is stored before the end of another is recorded', async () => {
    const bed = new Bed(startedAs('one', 500), startedAs('two', 100));
    await bed.pass();
    bed.seen = { one: ENDED };
    await bed.pass();
    bed.seen = { two: ENDED };
    await bed.pass();
    await bed.pass();
    expect(bed.kept).toEqual([at(500), at(100), null, null]);
  });

  it('are removed from the container if they are not listed any more', async () => {
    const bed = new Bed(startedAs('one'));
    bed.running = { handle: 'handle', commandIds: ['one', 'removed before'] };
    await bed.pass();
    expect(bed.removed).toEqual(['removed before']);
  });

  it('cost nothing if there never were any', async () => {
    const bed = new Bed();
    expect(await bed.pass()).toBeNull();
    expect(bed.kept).toEqual([]);
  });
});
