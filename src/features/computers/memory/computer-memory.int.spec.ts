import { ComputerFixture, computerFeatures } from '../../../../test/support/computer-fixture.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import type { TestResponse, TestServer } from '../../../../test/support/http-server.ts';
import { Config } from '../../../kernel/config/config.ts';
import { readConfig } from '../../../kernel/config/read-config.ts';
import { Database } from '../../../postgres/database/database.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import { Activity } from '../../../sandboxes/services.ts';
import { ComputerMemory } from './computer-memory.service.ts';

let server: TestServer;
let memory: ComputerMemory;

/** A machine for three small computers, of which one account may have two. */
const environment = { MOORING_COMPUTERS_MEMORY_MAX_MB: '6144' };
const ACCOUNT_MB = 4_096;

beforeAll(async () => {
  server = await startFeatureServer({ ...computerFeatures, environment });
  server.config.computersMemoryPerAccountMb = ACCOUNT_MB;
  memory = server.app.get(ComputerMemory, { strict: false });
});
beforeEach(() => server.app.get(Database, { strict: false }).query('delete from computer_memory'));
afterAll(() => server?.close());

const open = (name: string) => ComputerFixture.open(server, name);

/** Makes a computer that is awake, with the memory of its container. */
async function awake(bed: ComputerFixture, endUserId: string): Promise<string> {
  const computerId = await bed.awake(endUserId);
  expect(await memory.confirm({ sandboxId: computerSandbox(computerId), accountId: bed.accountId, mb: 2_048 })).toBeNull();
  return computerId;
}

async function frozen(bed: ComputerFixture, endUserId: string): Promise<string> {
  const computerId = await awake(bed, endUserId);
  const deadlineAt = new Date(Date.now() + 60_000).toISOString();
  await bed.record(computerId, { type: 'SleepComputer', accountId: bed.accountId, depth: 'frozen', reason: 'idle', deadlineAt });
  await bed.record(computerId, { type: 'RecordSlept', depth: 'frozen' });
  return computerId;
}

/** Does as the saga when the computer is asked to make room. */
async function stops(bed: ComputerFixture, computerId: string, status: 'going_to_sleep' | 'asleep'): Promise<void> {
  await bed.stopWhenAsked(computerId, status, () => memory.release(computerSandbox(computerId)));
}

const create = (bed: ComputerFixture, end_user_id: string) => bed.ask('POST', '', { json: { end_user_id } });

function expectFull(answer: TestResponse): void {
  expect([answer.status, answer.json.code, answer.headers.get('retry-after')]).toEqual([503, 'capacity', '10']);
}

const reasonOf = async (bed: ComputerFixture, computerId: string) => {
  const { json } = await bed.ask('GET', `/${computerId}/history?type=ComputerSleepRequested`);
  return json.at(-1)?.data.reason as string | undefined;
};

describe('the memory of the machine', () => {
  it('is freed by putting the account’s least recently used computer to sleep', async () => {
    const bed = await open('own');
    const first = await awake(bed, 'first');
    const second = await awake(bed, 'second');
    const [third] = await Promise.all([create(bed, 'third'), stops(bed, first, 'going_to_sleep')]);
    expect(third.status).toBe(201);
    expect(await reasonOf(bed, first)).toBe('memory');
    expect((await bed.ask('GET', `/${second}`)).json.status).toBe('awake');
  });

  it('is never freed from a computer in use, or from another account’s awake computer', async () => {
    const [one, other] = [await open('busy'), await open('neighbour')];
    const computers = [await awake(one, 'a'), await awake(one, 'b'), await awake(other, 'c')];
    const activity = server.app.get(Activity, { strict: false });
    const holds = await Promise.all(computers.slice(0, 2).map((id) => activity.hold(computerSandbox(id))));
    expectFull(await create(one, 'more'));
    expectFull(await create(other, 'more'));
    holds.forEach((hold) => hold.release());
    for (const [bed, id] of [
      [one, computers[0]],
      [one, computers[1]],
      [other, computers[2]],
    ] as const)
      expect((await bed.ask('GET', `/${id}`)).json.status).toBe('awake');
  });

  it('is freed from frozen computers first, the account’s own before others', async () => {
    const [one, other] = [await open('frozen'), await open('frozen-neighbour')];
    const own = await frozen(one, 'own');
    const foreign = await frozen(other, 'foreign');
    await awake(one, 'awake');
    const [first] = await Promise.all([create(one, 'next'), stops(one, own, 'asleep')]);
    expect(first.status).toBe(201);
    expect(await reasonOf(one, own)).toBe('memory');
    expect(await reasonOf(other, foreign)).toBe('idle');
  });

  it('is freed from the account’s unused computer before a frozen one of another account', async () => {
    const [one, other, third] = [await open('unused'), await open('keeps'), await open('fills-up')];
    const foreign = await frozen(other, 'foreign');
    const own = await awake(one, 'own');
    await awake(third, 'x');
    const [made] = await Promise.all([create(one, 'new'), stops(one, own, 'going_to_sleep')]);
    expect(made.status).toBe(201);
    expect(await reasonOf(other, foreign)).toBe('idle');
  });

  it('is freed from a frozen computer of another account if the machine is full', async () => {
    const [one, other, third] = [await open('needs'), await open('sleeps'), await open('fills')];
    const foreign = await frozen(other, 'foreign');
    await awake(third, 'x');
    await awake(third, 'y');
    const [made] = await Promise.all([create(one, 'new'), stops(other, foreign, 'asleep')]);
    expect(made.status).toBe(201);
    expect(await reasonOf(other, foreign)).toBe('memory');
  });

  it('lets an account have one computer, however small its share is', async () => {
    const config = Object.assign(readConfig(environment), { computersMemoryPerAccountMb: 1 });
    const narrow = new ComputerMemory(server.app.get(Database, { strict: false }), config);
    const order = (sandboxId: string) => ({ sandboxId, accountId: 'narrow', mb: 2_048 });
    expect(await narrow.reserve(order('computer-1'))).toBeNull();
    expect(await narrow.reserve(order('computer-1'))).toBeNull();
    expect(await narrow.reserve(order('computer-2'))).toBe('account');
  });

  it('is never given away twice, however many replicas reserve it at once, and is free again after a minute without a boot', async () => {
    const database = server.app.get(Database, { strict: false });
    const replicas = [memory, new ComputerMemory(database, server.app.get(Config))];
    const lacks = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        replicas[index % 2]!.reserve({ sandboxId: `computer-${index}`, accountId: `account-${index}`, mb: 2_048 }),
      ),
    );
    expect(lacks.filter((lack) => lack === null)).toHaveLength(3);
    expect(lacks.filter((lack) => lack === 'machine')).toHaveLength(37);
    await database.query(`update computer_memory set reserved_until = clock_timestamp() - interval '1 second'`);
    expect(await memory.reserve({ sandboxId: 'computer-a', accountId: 'late', mb: 6_144 })).toBeNull();
  });

  it('stays reserved for a container until it is released, whatever is reserved for its next boot', async () => {
    const order = (mb: number) => ({ sandboxId: 'computer-kept', accountId: 'keeper', mb });
    await memory.confirm(order(4_096));
    await memory.reserve(order(2_048));
    expect(await memory.confirmedFor('computer-kept')).toBe(4_096);
    await memory.release('computer-kept');
    expect(await memory.confirmedFor('computer-kept')).toBeNull();
  });
});
