import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, openLog, type OpenedLog } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { AccountPositions } from './account-positions.ts';
import { START, type NewEvent, type StoredEvent } from '../event-store/event-store.ts';
import { LogFollower, type LogListener } from './log-follower.ts';

const core = { eventClass: 'core' } as const;

describe('the last events of an account', () => {
  let test: TestDatabase;
  const opened: { log: OpenedLog; follower: LogFollower }[] = [];

  const replica = async () => {
    const log = await openLog(test.url);
    const follower = new LogFollower(log.store);
    const positions = new AccountPositions(follower);
    opened.push({ log, follower });
    await follower.onApplicationBootstrap();
    const of = async (accountId: string | null, filter: object = {}) => {
      await follower.catchUpToHead();
      return positions.of(accountId, { ...core, ...filter });
    };
    return { log, of };
  };
  const by = (accountId: string, kind: 'api_key' | 'system' = 'api_key', type = 'BoatArrived'): NewEvent => {
    const event = sampleEvent(type);
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

  it('are known on one replica as soon as another one has stored them', async () => {
    const [one, two] = [await replica(), await replica()];
    expect(await two.of('acme')).toEqual({ last: START, written: START });
    for (let round = 0; round < 100; round += 1) {
      const { position } = await appendTo(one.log.store, 'boat-Ark', by('acme'));
      expect(await two.of('acme')).toEqual({ last: position, written: position });
    }
    expect(await two.of('other')).toEqual({ last: START, written: START });
  });

  it('are separate for events that the account caused and events that the service caused', async () => {
    const one = await replica();
    const own = await appendTo(one.log.store, 'boat-Ark', by('acme'));
    const ours = await appendTo(one.log.store, 'boat-Ark', by('acme', 'system'));
    expect(await one.of('acme')).toEqual({ last: ours.position, written: own.position });
  });

  it('are those that pass a filter', async () => {
    const one = await replica();
    const arrived = await appendTo(one.log.store, 'boat-Ark', by('acme'));
    const left = await appendTo(one.log.store, 'boat-Ark', by('acme', 'api_key', 'BoatLeft'));
    const turned = await appendTo(one.log.store, 'tide-1', by('acme', 'api_key', 'TideTurned'));
    const last = async (filter: object) => (await one.of('acme', filter)).last;
    expect(await last({ categories: ['boat'] })).toBe(left.position);
    expect(await last({ categories: ['boat'], types: ['BoatArrived', 'BoatLoaded'] })).toBe(arrived.position);
    expect(await last({ types: ['TideTurned'] })).toBe(turned.position);
    expect(await last({ categories: ['ferry'] })).toBe(START);
  });

  it('include all accounts for a caller who may see all of them', async () => {
    const one = await replica();
    await appendTo(one.log.store, 'boat-Ark', by('acme'));
    const { position } = await appendTo(one.log.store, 'boat-Beagle', by('other'));
    expect(await one.of(null)).toEqual({ last: position, written: START });
  });

  it('may be anywhere in the part of the log that is older than the process', async () => {
    const one = await replica();
    const { position } = await appendTo(one.log.store, 'boat-Ark', by('acme'));
    const late = await replica();
    expect(await late.of('acme')).toEqual({ last: position, written: START });
  });

  it('are remembered within bounds: for the accounts that changed longest ago, only an upper bound is known', () => {
    let listener: LogListener | null = null;
    const positions = new AccountPositions({ listen: (given: LogListener) => (listener = given) } as unknown as LogFollower);
    const heard = (index: number) =>
      ({ ...by(`account ${index}`), stream: 'boat-Ark', position: positionOf(index) }) as unknown as StoredEvent;
    for (let index = 1; index <= 50_002; index += 1) listener!.onEvents([heard(index)], positionOf(index));
    expect(positions.of('account 1', core)).toEqual({ last: positionOf(2), written: START });
    expect(positions.of('account 3', core)).toEqual({ last: positionOf(3), written: positionOf(3) });
    listener!.onGap!(positionOf(60_000));
    expect(positions.of('account 3', core)).toEqual({ last: positionOf(60_000), written: START });
  });
});

function positionOf(index: number): string {
  return String(index).padStart(20, '0');
}
