import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { v7 as uuidv7 } from 'uuid';

import { appendTo, openLog, type OpenedLog } from '../../../../test/support/log.ts';
import { sampleEvent } from '../../../../test/support/sample-event.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { until } from '../../../../test/support/until.ts';
import { DatabaseKeyring } from '../../../crypto/database-keyring.ts';
import type { Sealed } from '../../../crypto/keyring.ts';
import { MasterKeys } from '../../../crypto/master-keys.ts';
import { ShredLedger } from '../../../crypto/shred-ledger.ts';
import type { AnyEventDefinition } from '../../../eventsourcing/event-store/event-catalogue.ts';
import { defineEvent } from '../../../eventsourcing/event-store/event-definition.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { agentEvents } from '../aggregate/agents.events.ts';
import { AgentKeys } from './agent-keys.service.ts';

interface OneReplica {
  log: OpenedLog;
  follower: LogFollower;
  keyring: DatabaseKeyring;
  keys: AgentKeys;
}

describe('an agent’s data key, at two replicas', () => {
  const masterKey = randomBytes(32);
  let test: TestDatabase;
  let folder: string;
  let deletes: OneReplica;
  let reads: OneReplica;
  let now: jest.SpiedFunction<typeof performance.now>;
  let offsetMs = 0;

  const replica = async (...newer: AnyEventDefinition[]): Promise<OneReplica> => {
    const log = await openLog(test.url, [agentEvents.AgentDeletionRequested, agentEvents.AgentDeleted, ...newer]);
    const keyring = new DatabaseKeyring(log.database, new MasterKeys(log.database, masterKey, null), ShredLedger.in(folder));
    const follower = new LogFollower(log.store);
    const keys = new AgentKeys(keyring, follower);
    await follower.onApplicationBootstrap();
    return { log, follower, keyring, keys };
  };
  const open = (agentId: string, sealed: Sealed) => reads.keyring.open(agentId, 'text', sealed, { endIsLogged: true });
  /** Seals a text that the second replica has opened, so that it has the key. */
  const known = async (agentId: string) => {
    const sealed = await deletes.keyring.seal(agentId, 'text', 'secret', { endIsLogged: true });
    await reads.follower.catchUpToHead();
    expect(await open(agentId, sealed)).toBe('secret');
    return sealed;
  };
  /** The number of times that the second replica looks at the table of keys. */
  const looks = async (work: () => Promise<unknown>) => {
    const query = jest.spyOn(reads.log.database.pool, 'query');
    await work();
    const count = query.mock.calls.filter(([text]) => text.includes('from data_keys')).length;
    query.mockRestore();
    return count;
  };
  const wait = (ms: number) => (offsetMs += ms);
  const says = (agentId: string, ...types: string[]) =>
    appendTo(deletes.log.store, `agent-${agentId}`, ...types.map((type) => sampleEvent(type)));

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-keys-'));
    test = await freshDatabase();
    const clock = performance.now.bind(performance);
    offsetMs = 0;
    now = jest.spyOn(performance, 'now').mockImplementation(() => clock() + offsetMs);
    [deletes, reads] = [await replica(defineEvent()('OfANewerProgram', () => 'Something new')), await replica()];
  });
  afterEach(async () => {
    now.mockRestore();
    for (const { keys, follower, log } of [deletes, reads]) {
      keys.onModuleDestroy();
      await follower.beforeApplicationShutdown();
      await log.close();
    }
    await test.drop();
    await rm(folder, { recursive: true, force: true });
  });

  it('is used without a look at the table for as long as the agent lives and the log is heard', async () => {
    const agentId = uuidv7();
    const sealed = await known(agentId);
    wait(3_600_000);
    await reads.follower.catchUpToHead();
    expect(await looks(async () => expect(await open(agentId, sealed)).toBe('secret'))).toBe(0);
    // A caller who can't tell when the subject ends has it read again.
    expect(await looks(() => reads.keyring.open(agentId, 'text', sealed))).toBe(1);
  });

  it('opens nothing at either once its deletion was heard of, even within the second for which keys are used', async () => {
    const agentId = uuidv7();
    const sealed = await known(agentId);
    await deletes.keyring.shred(agentId);
    expect(await deletes.keyring.open(agentId, 'text', sealed, { endIsLogged: true })).toBeNull();
    await says(agentId, 'AgentDeleted');
    await reads.follower.catchUpToHead();
    expect(await open(agentId, sealed)).toBeNull();
  });

  it('is read every second from the request to delete the agent on', async () => {
    const agentId = uuidv7();
    const sealed = await known(agentId);
    await says(agentId, 'AgentDeletionRequested');
    await reads.follower.catchUpToHead();
    expect(await looks(async () => expect(await open(agentId, sealed)).toBe('secret'))).toBe(1);
    await deletes.keyring.shred(agentId);
    wait(1_000);
    // The log says nothing more, and all of it is heard.
    await reads.follower.catchUpToHead();
    expect(await open(agentId, sealed)).toBeNull();
  });

  it('opens nothing a second after the agent was deleted at a replica that does not hear the log any more', async () => {
    const agentId = uuidv7();
    const sealed = await known(agentId);
    await reads.follower.beforeApplicationShutdown();
    await deletes.keyring.shred(agentId);
    await says(agentId, 'AgentDeleted');
    await expect(reads.follower.catchUpToHead()).rejects.toMatchObject({ code: 'read_model_behind' });
    wait(1_000);
    expect(await open(agentId, sealed)).toBeNull();
  });

  it('is read again after events were missed, because there was one that this program can’t read', async () => {
    const agentId = uuidv7();
    const sealed = await known(agentId);
    await deletes.keyring.shred(agentId);
    const { position } = await says(agentId, 'OfANewerProgram', 'AgentDeleted');
    await until('the log is followed again', () => (reads.follower.position >= position ? true : undefined));
    await reads.follower.catchUpToHead();
    expect(await open(agentId, sealed)).toBeNull();
  });
});
