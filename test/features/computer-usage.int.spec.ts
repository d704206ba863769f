import { ComputerContainers } from '../support/computer-containers.ts';
import { span, until } from '../support/until.ts';
import { Browser } from '../support/viewer-fixture.ts';

let computers: ComputerContainers;
let computerId: string;

beforeAll(async () => {
  computers = await ComputerContainers.start();
  ({ computerId } = await computers.awake('ana'));
});
afterAll(() => computers?.close());

const ask = (method: string, path: string, json?: object) => computers.bed.ask(method, path, json === undefined ? {} : { json });
const exec = (id: string, json: object) => ask('POST', `/${id}/exec`, json);

interface Used {
  exec_calls: number;
  viewer_seconds: number;
  computers: { computer_id: string; exec_calls: number; viewer_seconds: number }[];
}

async function usage(): Promise<Used> {
  const { json } = await ask('GET', '/usage');
  return { ...json.totals, computers: json.computers };
}

/** Returns how long viewers were connected to the computer, in the order in which they left, according to its history. */
async function visits(count: number): Promise<number[]> {
  return until(`${count} visits are over`, async () => {
    const { json } = await ask('GET', `/${computerId}/history?type=ViewerDisconnected`);
    const seconds = (json as { data: { seconds: number } }[]).map(({ data }) => data.seconds);
    return seconds.length === count ? seconds : undefined;
  });
}

describe('the usage of a computer', () => {
  it('counts each command that was run in it, whatever its result, and none that was refused', async () => {
    const { computerId: other } = await computers.awake('ben');
    await exec(computerId, { command: 'true' });
    await exec(computerId, { command: ['sh', '-c', 'exit 3'] });
    expect((await exec(computerId, { command: 'sleep 60', timeout: 1 })).json).toMatchObject({ timedOut: true });
    expect((await exec(computerId, { command: [] })).status).toBe(400);
    await exec(other, { command: 'true' });
    const used = await until('the commands are counted', async () => {
      const now = await usage();
      return now.exec_calls >= 4 ? now : undefined;
    });
    expect(used.exec_calls).toBe(4);
    const calls = Object.fromEntries(used.computers.map((each) => [each.computer_id, each.exec_calls]));
    expect(calls).toEqual({ [computerId]: 3, [other]: 1 });
  });

  it('counts a command once under one Idempotency-Key', async () => {
    const before = (await usage()).exec_calls;
    const once = { json: { command: 'true' }, headers: { 'idempotency-key': 'once' } };
    for (const _ of [1, 2]) await computers.bed.ask('POST', `/${computerId}/exec`, once);
    await exec(computerId, { command: 'true' });
    const after = await until('the last command is counted', async () => {
      const { exec_calls: calls } = await usage();
      return calls >= before + 2 ? calls : undefined;
    });
    expect(after).toBe(before + 2);
  });

  it('has the seconds for which people were connected to it, each for itself, however they left', async () => {
    const link = async () => new URL((await ask('POST', `/${computerId}/viewer`, {})).json.url as string).pathname;
    const [one, two] = [await link(), await link()];
    const begun = performance.now();
    const first = await new Browser(computers.server).connect(one);
    const second = await new Browser(computers.server).connect(two);
    const connected = performance.now();
    await span(1_700);
    const leaving = performance.now();
    first.socket.close();
    const [short = 0] = await visits(1);
    const left = performance.now();
    await span(1_000);
    const closing = performance.now();
    await ask('POST', `/${computerId}/sessions/close`);
    await second.closed;
    const ended = performance.now();
    const [, long = 0] = await visits(2);
    for (const [seconds, least, most] of [
      [short, leaving - connected, left - begun],
      [long, closing - connected, ended - begun],
    ] as const) {
      expect(seconds).toBeGreaterThanOrEqual(Math.round(least / 1_000));
      expect(seconds).toBeLessThanOrEqual(Math.round(most / 1_000));
    }
    expect(long).toBeGreaterThan(short);
    const used = await until('both visits are counted', async () => {
      const now = await usage();
      return now.viewer_seconds >= short + long ? now : undefined;
    });
    expect(used.viewer_seconds).toBe(short + long);
    expect(used.computers.find((each) => each.computer_id === computerId)?.viewer_seconds).toBe(short + long);
  });
});
