import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import fc from 'fast-check';
import { quickIntervals } from '../support/intervals.ts';
import { Intervals } from '../../src/kernel/config/intervals.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import type { Database } from '../../src/postgres/database/database.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { EventStoreUnavailable, OutcomeUnknown, type EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { PostgresEventStore } from '../../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import type { ContainerRuntime } from '../../src/runtime/runtime.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { RuntimeUnavailable } from '../../src/runtime/runtime.errors.ts';
import { LogCapture } from '../../src/features/logs/capture/log-capture.service.ts';
import { LineBound } from '../../src/features/logs/retention/line-bound.ts';
import { ReadShare } from '../../src/kernel/limits/read-share.ts';
import { LogRetention } from '../../src/features/logs/entries/log-entries.projection.ts';
import { logEvents, type CapturedLine } from '../../src/features/logs/output/logs.events.ts';

/**
 * A runtime with an image whose command prints BYTES, then COUNT numbers from FIRST, 20 at a time, and then exits or keeps running (STAYS).
 */
export interface Printer {
  runtime: ContainerRuntime;
  image: string;
  command: string[];
  close(): Promise<void>;
}

/** Returns the object with some of its members replaced. */
function changed<Part extends object>(part: Part, changes: Partial<Part>): Part {
  return new Proxy(part, {
    get(target, name) {
      const member = Reflect.get(name in changes ? changes : target, name) as unknown;
      return typeof member === 'function' && !(name in changes) ? (member.bind(target) as unknown) : member;
    },
  });
}

/** Registers the tests of the capture on one runtime. */
/** Silences warnings. Returns those of captures so far, since other parts of the process may warn, too. */
function warningsOfCapture(): () => string[] {
  const warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  return () => warned.mock.calls.map(([line]) => String(line)).filter((line) => line.startsWith('log capture'));
}

export function capturing(open: () => Promise<Printer>): void {
  let database: TestDatabase;
  let opened: Database;
  let store: EventStore;
  let printer: Printer;
  const captures: LogCapture[] = [];

  beforeAll(async () => {
    database = await freshDatabase();
    opened = await openDatabase({ url: database.url, allowUnsafe: true });
    store = new PostgresEventStore(opened, new EventCatalogue(Object.values(logEvents)));
    printer = await open();
  });

  afterEach(async () => {
    for (const each of captures.splice(0)) await each.stop();
    jest.restoreAllMocks();
  });

  afterAll(async () => {
    await printer?.close();
    await store?.close();
    await opened?.close();
    await database?.drop();
  });

  /** Creates a share that lets everything be read as fast as it arrives. */
  const unbounded = () => new ReadShare({ perSecond: 1e9, atATime: 100 });

  function capture(runtime = printer.runtime, events = store, share = unbounded(), intervals = quickIntervals): LogCapture {
    const made = new LogCapture(events, runtime, new LineBound(events, new LogRetention(opened)), share, intervals);
    captures.push(made);
    return made;
  }

  async function printing(
    first: number,
    count: number,
    stays: boolean,
    agentId: string = randomUUID(),
    generation = 1,
    bytes: Uint8Array = Buffer.alloc(0),
  ): Promise<ContainerView> {
    const { runtime, image, command } = printer;
    const limits = {
      memoryBytes: 64 * 1024 * 1024,
      cpus: 1,
      pids: 64,
      openFiles: 1_024,
      readOnlyRoot: false,
      egress: 'internet' as const,
      tmpfs: [],
      shmBytes: null,
      userNamespaces: false,
    };
    const who = { agentId, generation, deploymentId: randomUUID(), user: null, port: 8080, volumePath: '/data' };
    const environment = {
      FIRST: String(first),
      COUNT: String(count),
      STAYS: stays ? 'yes' : 'no',
      BYTES: Buffer.from(bytes).toString('base64'),
    };
    await runtime.ensureVolume(agentId);
    const view = await runtime.create({ ...who, ...limits, image, command, environment });
    await runtime.start(view.handle, environment);
    return view;
  }

  async function captured(agentId: string): Promise<string[]> {
    const lines: string[] = [];
    for await (const { data } of store.readStream(`log-${agentId}`)) lines.push(...(data.lines as CapturedLine[]).map(({ m }) => m));
    return lines;
  }

  const account = 'acme';
  const always = new AbortController().signal;
  const numbers = (count: number, first = 0) => Array.from({ length: count }, (_, index) => `line ${first + index}`);
  const holds = (agentId: string, count: number) =>
    until(`${count} lines are in the log`, async () => ((await captured(agentId)).length >= count ? true : undefined), { everyMs: 50 });
  /** On a busy machine the end of the output may take longer than one drain waits. */
  const drained = (from: LogCapture, view: ContainerView) =>
    until('all output is in the log', async () => ((await from.drain(view, account)) ? true : undefined));
  const ended = (view: ContainerView) =>
    until('it has ended', async () => ((await printer.runtime.inspect(view.agentId)).containers[0]?.state === 'exited' ? true : undefined));

  it('has every line once and in order, although the capture stops and crashes', async () => {
    const view = await printing(0, 3_000, true);
    for (let turn = 0; turn < 6; turn++) {
      const one = capture();
      await one.follow(view, account, always);
      await holds(view.agentId, 400 * (turn + 1));
      // Every second capture continues, like a process that was suspended without noticing.
      if (turn % 2 === 0) await one.stop();
    }
    await capture().follow(view, account, always);
    await holds(view.agentId, 3_000);
    expect(await captured(view.agentId)).toEqual(numbers(3_000));
  });

  it('has all lines of an ended container, however often it is drained', async () => {
    const view = await printing(0, 500, false);
    await ended(view);
    const one = capture();
    await Promise.all([drained(one, view), drained(one, view)]);
    expect(await captured(view.agentId)).toEqual(numbers(500));
    await drained(one, view);
    await drained(capture(), view);
    expect(await captured(view.agentId)).toEqual(numbers(500));
  });

  it('has all lines of a container while one process follows and another one drains it', async () => {
    const view = await printing(0, 3_000, false);
    const [one, two] = [capture(), capture()];
    await ended(view);
    await Promise.all([one.follow(view, account, always), drained(two, view)]);
    expect(await captured(view.agentId)).toEqual(numbers(3_000));
  });

  it('ends when the signal aborts, and can be resumed by another process', async () => {
    const view = await printing(0, 1_000, true);
    const one = capture();
    const term = new AbortController();
    await one.follow(view, account, term.signal);
    await holds(view.agentId, 100);
    term.abort();
    await one.follow(view, account, always);
    await holds(view.agentId, 1_000);
    expect(await captured(view.agentId)).toEqual(numbers(1_000));
  });

  it('continues with a newer container, and never returns to the older one', async () => {
    const first = await printing(0, 200, false);
    const one = capture();
    await one.follow(first, account, always);
    await ended(first);
    const second = await printing(200, 200, true, first.agentId, 2);
    await one.follow(second, account, always);
    await one.follow(first, account, always);
    await holds(first.agentId, 400);
    await drained(one, first);
    await drained(capture(), first);
    expect(await captured(first.agentId)).toEqual(numbers(400));
  });

  it('does not wait forever for a running container', async () => {
    const view = await printing(0, 20, true);
    // The product's own order: the output that has been printed is in the log when the drain ends.
    expect(await capture(printer.runtime, store, unbounded(), new Intervals()).drain(view, account)).toBe(false);
    expect(await captured(view.agentId)).toEqual(numbers(20));
  });

  it.each([
    ['fails', () => new Error('torn')],
    ['is away', () => new RuntimeUnavailable(new Error('gone'))],
    ['ends its stream', () => null],
  ])('resumes soon after the engine %s', async (_, failure) => {
    const warnings = warningsOfCapture();
    let failures = 3;
    const runtime = changed(printer.runtime, {
      async *logs(...given: Parameters<ContainerRuntime['logs']>) {
        let left = failures-- > 0 ? 150 : Infinity;
        for await (const line of printer.runtime.logs(...given)) {
          yield line;
          left -= 1;
          const error = left > 0 ? undefined : failure();
          if (error === null) return;
          if (error !== undefined) throw error;
        }
      },
    });
    const view = await printing(0, 1_000, true);
    await capture(runtime).follow(view, account, always);
    await holds(view.agentId, 1_000);
    expect(await captured(view.agentId)).toEqual(numbers(1_000));
    expect(warnings()).toHaveLength(failure() instanceof RuntimeUnavailable || failure() === null ? 0 : 3);
  });

  it.each(['before', 'after'])('resumes if the store fails %s it has written', async (when) => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    let appends = 0;
    const failing = changed(store, {
      async append(...given: Parameters<EventStore['append']>) {
        appends += 1;
        if (appends % 2 === 0 || appends > 5) return store.append(...given);
        if (when === 'before') throw new EventStoreUnavailable(new Error('away'));
        await store.append(...given);
        throw new OutcomeUnknown(given[0], new Error('cut'));
      },
    });
    const view = await printing(0, 1_000, true);
    await capture(printer.runtime, failing).follow(view, account, always);
    await holds(view.agentId, 1_000);
    expect(await captured(view.agentId)).toEqual(numbers(1_000));
  });

  it('continues after lines that the store refuses, and marks where they are missing', async () => {
    const refusing = changed(store, {
      append(...given: Parameters<EventStore['append']>) {
        const [, , [event]] = given;
        const hasRefused = (event?.data.lines as CapturedLine[] | undefined)?.some(({ m }) => m === 'line 7' || m === 'line 30');
        return hasRefused ? Promise.reject(new TypeError("it can't be stored")) : store.append(...given);
      },
    });
    const view = await printing(0, 100, true);
    await capture(printer.runtime, refusing).follow(view, account, always);
    await holds(view.agentId, 100);
    const missing = 'A line of the output could not be stored and was left out here.';
    expect(await captured(view.agentId)).toEqual(numbers(100).map((line) => (line === 'line 7' || line === 'line 30' ? missing : line)));
  });

  it('has a line for each line end of any bytes, and every line that is printed after them', async () => {
    const warnings = warningsOfCapture();
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 5_000, maxLength: 20_000, size: 'max' }), async (bytes) => {
        const view = await printing(0, 20, false, randomUUID(), 1, Buffer.concat([bytes, Buffer.from('\n')]));
        await drained(capture(), view);
        const lines = await captured(view.agentId);
        expect(lines.slice(-20)).toEqual(numbers(20));
        expect(lines).toHaveLength(bytes.filter((byte) => byte === 0x0a).length + 1 + 20);
        expect(lines).not.toContain('A line of the output could not be stored and was left out here.');
      }),
      { numRuns: 3 },
    );
    expect(warnings()).toEqual([]);
  });

  it('keeps a part of a flood, and logs how many lines it left out', async () => {
    const printed = 100_000;
    const flooding = changed(printer.runtime, {
      async *logs() {
        for (let n = 0; n < printed; n++) {
          const time = new Date(Date.parse('2026-01-01T00:00:00Z') + n / 100).toISOString();
          yield { stream: 'stdout' as const, text: `line ${n}`, cursor: { generation: 1, time, count: n + 1 } };
        }
        await Promise.resolve();
      },
    });
    const view = await printing(0, 0, false);
    await ended(view);
    await drained(capture(flooding), view);
    const lines = await captured(view.agentId);
    const leftOut = lines.map((line) => Number(/^(\d+) lines? of output left out here/.exec(line)?.[1] ?? 0));
    const told = leftOut.filter((count) => count > 0).length;
    expect(lines.length - told + leftOut.reduce((sum, count) => sum + count, 0)).toBe(printed);
    expect(lines.length).toBeLessThan(30_000);
    expect(lines.slice(0, 3)).toEqual(numbers(3));
  });

  it('pauses the reading of a flood, but not that of another account’s output', async () => {
    let read = 0;
    const flooded = await printing(0, 0, true);
    const quiet = await printing(0, 100, true);
    const flooding = changed(printer.runtime, {
      async *logs(...given: Parameters<ContainerRuntime['logs']>) {
        if (given[0] !== flooded.handle) return yield* printer.runtime.logs(...given);
        for (; !given[2].aborted; read++) {
          const time = new Date(Date.parse('2026-01-01T00:00:00Z') + read).toISOString();
          yield { stream: 'stdout' as const, text: `line ${read}`, cursor: { generation: 1, time, count: read + 1 } };
        }
      },
    });
    const one = capture(flooding, store, new ReadShare({ perSecond: 1e9, accountPart: 300 / 1e9, atATime: 100 }));
    const began = performance.now();
    await one.follow(flooded, account, always);
    await one.follow(quiet, 'another', always);
    await holds(quiet.agentId, 100);
    const seconds = (performance.now() - began) / 1_000;
    expect(read).toBeLessThanOrEqual(300 + 300 * seconds + 200);
    await one.stop();
    const kept = await captured(flooded.agentId);
    expect(kept).toEqual(numbers(kept.length));
  });

  it('ends without a warning when its container is removed', async () => {
    const warnings = warningsOfCapture();
    const views = await Promise.all(Array.from({ length: 5 }, () => printing(0, 40, true)));
    const one = capture();
    for (const view of views) await one.follow(view, account, always);
    for (const view of views) await holds(view.agentId, 40);
    await Promise.all(views.map((view) => printer.runtime.remove(view.handle)));
    await Promise.all(views.map((view) => drained(one, view)));
    expect(warnings()).toEqual([]);
  });
}
