import { setTimeout as after } from 'node:timers/promises';

import Dockerode from 'dockerode';

import { desktopImage } from '../test/support/desktop-image.ts';
import { seenContainers } from '../test/support/engine.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { BareContainer, BareProcesses, type BareDesktop } from './support/bare-desktop.ts';
import { type DesktopTools, toolsHere, toolsIn } from './support/desktop-tools.ts';
import { DesktopViewers } from './support/desktop-viewers.ts';
import { machineLoad, percentile, rounded, summary, timed } from './support/figures.ts';

const CLICKS = Number(process.env.BENCH_CLICKS ?? 200);
const PICTURES = Number(process.env.BENCH_PICTURES ?? 60);
const WARM_ROUNDS = 20;
/** A computer falls asleep after a minute at the earliest, so several of them do so concurrently. */
const SLEEPERS = Number(process.env.BENCH_SLEEPERS ?? 8);
const SLEEPS = Number(process.env.BENCH_SLEEPS ?? 4);
const IDLE_SECONDS = 60;
const STOPS = Number(process.env.BENCH_STOPS ?? 15);
const VIEWERS = Number(process.env.BENCH_VIEWERS ?? 20);

const aims = {
  click: { p50_local: 3, ratio: 0.5 },
  picture: { p50_local: 45, ratio: 0.4 },
  frozen_wake: { p95: 150 },
  stopped_wake: { p95: 1_500 },
  viewed: { p95: 150 },
};
/** Prints a line that changes ten times a second, like a progress bar. */
const TICKING = 'while sleep 0.1; do printf "\\r%s" "$(date +%N)"; done\n';

/**
 * Measures the time (in ms) of a click, of a picture, and of a picture that wakes a computer, by HTTP, compared with other desktop tools on
 * the same desktop, and with a desktop outside the service, in alternation. `computers:local` and `computers:docker` run it on one runtime.
 */
export async function run(part?: string): Promise<object> {
  const runtimes = (['local', 'docker'] as const).filter((runtime) => part === undefined || part === runtime);
  const figures: Record<string, object> = {};
  for (const runtime of runtimes) figures[runtime] = await onRuntime(runtime);
  return { aims, ...figures };
}

async function onRuntime(runtime: 'local' | 'docker'): Promise<object> {
  const environment = {
    MOORING_LOG_LEVEL: 'warn',
    MOORING_COMPUTERS_MEMORY_MAX_MB: '1000000',
    ...(runtime === 'docker' ? { MOORING_COMPUTER_IMAGE: process.env.MOORING_COMPUTER_IMAGE ?? (await desktopImage()) } : {}),
  };
  const service = await StartedService.start({ runtime, environment });
  const bench = new ComputersBench(service, runtime);
  try {
    await bench.prepare();
    const times: Record<string, object> = {};
    const works = {
      click: () => bench.clicks(),
      picture: () => bench.pictures(),
      same_picture: () => bench.samePictures(),
      stopped_wake: () => bench.stoppedWakes(),
      frozen_wake: () => bench.frozenWakes(),
      changing_picture: () => bench.changingPictures(),
      viewed_picture: () => bench.viewed(),
    };
    for (const [name, work] of Object.entries(works)) times[name] = { ...(await work()), load: machineLoad() };
    console.log(`on ${runtime}:`);
    console.table(times);
    return times;
  } finally {
    await bench.clean();
    await service.dispose();
  }
}

class ComputersBench {
  private readonly docker = new Dockerode();
  private readonly computers: string[] = [];
  private readonly viewers = new DesktopViewers();
  private tools: DesktopTools | null = null;
  private bare: BareDesktop | null = null;
  private at = 0;

  constructor(
    private readonly service: StartedService,
    private readonly runtime: 'local' | 'docker',
  ) {}

  /** Creates a computer with an open terminal, and a desktop outside the service. */
  async prepare(): Promise<void> {
    const computerId = await this.computer();
    await this.openTerminal();
    if (this.runtime === 'local') {
      this.tools = toolsHere(this.service.dataDir);
      this.bare = await BareProcesses.make();
    } else {
      const [seen] = await seenContainers(`computer-${computerId}`);
      const container = this.docker.getContainer(seen?.id ?? '');
      this.tools = await toolsIn(container);
      const { Image, HostConfig } = await container.inspect();
      this.bare = await BareContainer.make(this.docker, Image, HostConfig.NetworkMode ?? 'bridge');
    }
    await this.type('clear; ls -l /usr/bin | head -20\n');
  }

  async clean(): Promise<void> {
    this.viewers.close();
    await this.bare?.remove();
    for (const computerId of this.computers) await this.service.call('DELETE', `/api/v1/computers/${computerId}`);
  }

  clicks(): Promise<object> {
    const place = () => [900 + (this.at++ % 50), 600] as const;
    return inTurns(
      CLICKS,
      () => this.toolsOrFail().click(...place()),
      () => this.act({ action: 'left_click', coordinate: place() }),
    );
  }

  /** The pointer is moved before each picture, so that no two are the same. */
  pictures(): Promise<object> {
    const before = () => this.act({ action: 'mouse_move', coordinate: [100 + (this.at++ % 500), 700] });
    return inTurns(
      PICTURES,
      () => this.toolsOrFail().picture(),
      () => this.picture(),
      before,
    );
  }

  /** Takes pictures of a screen that does not change. */
  async samePictures(): Promise<object> {
    await after(1_000);
    return this.manyPictures(PICTURES);
  }

  /** Stops the computer and the desktop outside the service, and measures the time to the first picture of each. */
  async stoppedWakes(): Promise<object> {
    const [bare, ours]: [number[], number[]] = [[], []];
    await this.bareOrFail().start();
    for (let round = 0; round < STOPS; round += 1) {
      await this.bareOrFail().stop();
      bare.push(await timed(() => this.bareOrFail().start()));
      await this.ask('POST', '/sleep');
      ours.push(await timed(() => this.picture()));
    }
    return compared(bare, ours);
  }

  /** Computers are frozen after a minute without use. */
  async frozenWakes(): Promise<object> {
    const [bare, ours]: [number[], number[]] = [[], []];
    for (let count = 0; count < SLEEPERS; count += 1) await this.computer({ idle_timeout_seconds: IDLE_SECONDS });
    const sleepers = this.computers.slice(1);
    for (let round = 0; round < SLEEPS; round += 1) {
      for (const computerId of sleepers) await this.asleep(computerId);
      for (const computerId of sleepers) {
        await this.bareOrFail().freeze();
        bare.push(await timed(() => this.bareOrFail().thaw()));
        ours.push(await timed(() => this.picture(computerId)));
      }
    }
    return compared(bare, ours);
  }

  /** Takes pictures of a changing screen without viewers. */
  async changingPictures(): Promise<object> {
    await this.openTerminal();
    await this.type(TICKING);
    return this.manyPictures(2 * PICTURES);
  }

  /** Takes pictures of the same screen with viewers. */
  async viewed(): Promise<object> {
    for (let viewer = 0; viewer < VIEWERS; viewer += 1) {
      const { body } = await this.ask('POST', '/viewer', { mode: 'view', ttl_seconds: 3_600 });
      await this.viewers.join(body.url as string);
    }
    await until('all see the screen', () => (this.viewers.bytes > VIEWERS * 10_000 ? true : undefined));
    const [bytes, began] = [this.viewers.bytes, performance.now()];
    const viewed = await this.manyPictures(2 * PICTURES);
    const kbPerSecond = rounded((this.viewers.bytes - bytes) / (performance.now() - began));
    if (this.viewers.open !== VIEWERS) throw new Error(`only ${this.viewers.open} viewers are left`);
    return { ...viewed, viewers: VIEWERS, kb_per_second: kbPerSecond };
  }

  private async manyPictures(count: number): Promise<object> {
    const times: number[] = [];
    for (let round = -WARM_ROUNDS; round < count; round += 1) {
      const ms = await timed(() => this.picture());
      if (round >= 0) times.push(ms);
    }
    return { mooring: summary(times).p50, mooring_p95: summary(times).p95, mooring_least: percentile(times, 0) };
  }

  private async computer(more: object = {}): Promise<string> {
    const body = { end_user_id: `user-${this.computers.length}`, ...more };
    const made = await this.service.call('POST', '/api/v1/computers', body, { prefer: 'wait=100' });
    const computerId = made.body.computer_id as string | undefined;
    if (computerId === undefined) throw new Error(JSON.stringify(made.body));
    this.computers.push(computerId);
    await this.reached(computerId, 'awake');
    return computerId;
  }

  private async asleep(computerId: string): Promise<void> {
    await this.reached(computerId, 'asleep');
  }

  private async reached(computerId: string, wanted: string): Promise<void> {
    const look = async () => {
      const { body } = await this.service.call('GET', `/api/v1/computers/${computerId}`);
      if (body.status === 'error') throw new Error(JSON.stringify(body));
      return body.status === wanted ? true : undefined;
    };
    await until(`the computer is ${wanted}`, look, { timeoutMs: 600_000, everyMs: 250 });
  }

  private async ask(method: string, path: string, json?: unknown) {
    const answer = await this.service.call(method, `/api/v1/computers/${this.computers[0]}${path}`, json);
    if (answer.status >= 300) throw new Error(`${path} answered ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer;
  }

  private async act(batch: object): Promise<void> {
    const { body } = await this.ask('POST', '/actions', batch);
    if (body.ok !== true) throw new Error(JSON.stringify(body));
  }

  private openTerminal(): Promise<void> {
    const opening = { action: 'key', text: 'ctrl+alt+t' };
    return this.act({ actions: [opening, { action: 'wait', duration: 2 }] });
  }

  private type(text: string): Promise<void> {
    return this.act({
      actions: [
        { action: 'type', text },
        { action: 'wait', duration: 1 },
      ],
    });
  }

  private async picture(computerId = this.computers[0]): Promise<void> {
    const { url, api_key: key } = this.service.firstRun;
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${url}/api/v1/computers/${computerId}/screenshot`, { headers });
    const { byteLength } = await response.arrayBuffer();
    if (response.status !== 200 || byteLength < 1_000) throw new Error(`the picture was refused: ${response.status}`);
  }

  private toolsOrFail(): DesktopTools {
    if (this.tools === null) throw new Error('there are no tools');
    return this.tools;
  }

  private bareOrFail(): BareDesktop {
    if (this.bare === null) throw new Error('there is no desktop');
    return this.bare;
  }
}

/** Measures both in turn, so that other work on the machine affects them alike. */
async function inTurns(
  rounds: number,
  bareWork: () => Promise<unknown>,
  ourWork: () => Promise<unknown>,
  before: () => Promise<unknown> = () => Promise.resolve(),
): Promise<object> {
  const [bare, ours]: [number[], number[]] = [[], []];
  for (let round = -WARM_ROUNDS; round < rounds; round += 1) {
    await before();
    const one = await timed(bareWork);
    await before();
    const other = await timed(ourWork);
    if (round < 0) continue;
    bare.push(one);
    ours.push(other);
  }
  return compared(bare, ours);
}

function compared(bare: readonly number[], ours: readonly number[]): object {
  const [one, other] = [summary(bare), summary(ours)];
  const ratio = rounded(other.p50 / one.p50, 3);
  return { bare: one.p50, bare_p95: one.p95, mooring: other.p50, mooring_p95: other.p95, mooring_least: percentile(ours, 0), ratio };
}
