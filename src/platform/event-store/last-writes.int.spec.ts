import { appendTo, harbourEvent, openLog, type OpenedLog } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { START, type NewEvent } from './event-store.ts';
import { LastWrites } from './last-writes.ts';
import { LogFollower } from './log-follower.ts';

describe('the last write of an account', () => {
  let test: TestDatabase;
  const opened: { log: OpenedLog; follower: LogFollower }[] = [];

  const replica = async () => {
    const log = await openLog(test.url);
    const follower = new LogFollower(log.store);
    const writes = new LastWrites(follower);
    opened.push({ log, follower });
    await follower.onApplicationBootstrap();
    return { log, writes };
  };
  const own = (position: string) => ({ position, isOwn: true });
  const others = (position: string) => ({ position, isOwn: false });
  const by = (accountId: string, kind: 'api_key' | 'system' = 'api_key'): NewEvent => {
    const event = harbourEvent('BoatArrived');
    return { ...event, metadata: { ...event.metadata, account_id: accountId, actor: { kind, id: 'x', name: 'x' } } };
  };

  beforeEach(async () => {
    test = await freshDatabase();
  });
  afterEach(async () => {
    for (const { log, follower } of opened.splice(0)) {
      await follower.beforeApplicationShutdown();
      await log.close();
    }
    await test.drop();
  });

  it('is known at one replica as soon as another one has stored it', async () => {
    const [one, two] = [await replica(), await replica()];
    expect(await two.writes.of('acme')).toEqual(others(START));
    for (let round = 0; round < 100; round += 1) {
      const { position } = await appendTo(one.log.store, 'boat-Ark', by('acme'));
      expect(await two.writes.of('acme')).toEqual(own(position));
    }
    expect(await two.writes.of('other')).toEqual(others(START));
  });

  it('is not what the service did by itself for the account', async () => {
    const one = await replica();
    const { position } = await appendTo(one.log.store, 'boat-Ark', by('acme'));
    await appendTo(one.log.store, 'boat-Ark', by('acme', 'system'));
    expect(await one.writes.of('acme')).toEqual(own(position));
  });

  it('counts as anybody’s where it is older than the process, or forgotten', async () => {
    const one = await replica();
    const { position } = await appendTo(one.log.store, 'boat-Ark', by('acme'));
    const late = await replica();
    expect(await late.writes.of('acme')).toEqual(others(position));
    for (let index = 1; index <= 10_001; index += 1) late.writes.note(`account ${index}`, `9${String(index).padStart(19, '0')}`);
    expect(await late.writes.of('account 1')).toEqual(others('90000000000000000001'));
    expect(await late.writes.of('another')).toEqual(others('90000000000000000001'));
    expect(await late.writes.of('account 10001')).toEqual(own('90000000000000010001'));
  });

  it('is asked for once while many wait, and told as far as it is known where the store is away', async () => {
    const one = await replica();
    const { position } = await appendTo(one.log.store, 'boat-Ark', by('acme'));
    await one.writes.of('acme');
    let asked = 0;
    const head = one.log.store.head.bind(one.log.store);
    one.log.store.head = (eventClass) => ((asked += 1), head(eventClass));
    const answers = await Promise.all(Array.from({ length: 100 }, () => one.writes.of('acme')));
    expect(answers).toEqual(answers.map(() => own(position)));
    expect(asked).toBeLessThanOrEqual(2);
    one.log.store.head = () => Promise.reject(new Error('away'));
    expect(await one.writes.of('acme')).toEqual(own(position));
  });
});
