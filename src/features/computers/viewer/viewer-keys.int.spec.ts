import { randomUUID } from 'node:crypto';

import { CommandBus } from '@nestjs/cqrs';

import { until } from '../../../../test/support/until.ts';
import { ViewerFixture } from '../../../../test/support/viewer-fixture.ts';
import { IssueApiKey, RevokeApiKey } from '../../api-keys/index.ts';
import { type CommandContext, systemContext } from '../../../kernel/context/command-context.ts';
import { Sagas } from '../../../eventsourcing/sagas/saga.ts';
import { ViewerKeysSaga } from './viewer-keys.saga.ts';
import { ViewerRecords } from './viewer-records.service.ts';

let bed: ViewerFixture;
beforeAll(async () => void (bed = await ViewerFixture.start()));
afterAll(() => bed?.server.close());

const commands = () => bed.server.app.get(CommandBus);
const saga = () => bed.server.app.get(ViewerKeysSaga, { strict: false });
const context = (keyId: string): CommandContext => ({
  ...systemContext('test', 'acme'),
  actor: { kind: 'api_key', id: keyId, name: 'support' },
});

async function issuedKey(): Promise<string> {
  const order = { name: 'support', scopes: ['computers' as const], expiresInDays: null };
  return (await commands().execute(new IssueApiKey(systemContext('test', 'acme'), 'acme', order, null))).key.state.keyId;
}

function revoke(keyId: string): Promise<void> {
  return commands().execute(new RevokeApiKey(systemContext('test', 'acme'), 'acme', keyId));
}

/** Makes a session of the computer with the key, and returns its id. */
async function session(computerId: string, keyId: string): Promise<string> {
  const sessionId = randomUUID();
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const order = { computerId, accountId: 'acme', sessionId, mode: 'control' as const, exclusive: false, label: null, expiresAt };
  await bed.server.app.get(ViewerRecords, { strict: false }).execute(computerId, { type: 'CreateSession', ...order }, context(keyId));
  return sessionId;
}

/** Returns the reasons for which sessions of the computer have ended, by their ids. */
async function ends(computerId: string): Promise<Record<string, string>> {
  const state = await bed.server.app.get(ViewerRecords, { strict: false }).load(computerId);
  return Object.fromEntries((state?.ended ?? []).map(({ id, reason }) => [id, reason]));
}

describe('links that were made with an API key', () => {
  it('end with it on all computers, and no others do', async () => {
    const [keyId, otherKey] = [await issuedKey(), await issuedKey()];
    const [one, two] = [bed.computer(), bed.computer()];
    const ended = [await session(one, keyId), await session(one, keyId)];
    const [kept, elsewhere] = [await session(one, otherKey), await session(two, keyId)];
    await revoke(keyId);
    await until('they have ended', async () => (Object.keys(await ends(two)).length === 1 ? true : undefined));
    await until('they have ended', async () => (Object.keys(await ends(one)).length === 2 ? true : undefined));
    expect(await ends(one)).toEqual(Object.fromEntries(ended.map((id) => [id, 'revoked'])));
    expect(await ends(two)).toEqual({ [elsewhere]: 'revoked' });
    const shown = (await bed.sessions(one)).find(({ session_id }) => session_id === kept);
    expect(shown).toMatchObject({ status: 'pending' });
  });

  it('end, too, where a request of the key made them while it was revoked', async () => {
    const keyId = await issuedKey();
    const computerId = bed.computer();
    await revoke(keyId);
    const late = await session(computerId, keyId);
    const left = async () => ((await saga().resync()).some(({ key }) => key === keyId) ? true : undefined);
    await until('it is found', left);
    bed.server.app.get(Sagas, { strict: false }).wake(saga().name, keyId);
    await until('it has ended', async () => (await ends(computerId))[late]);
    await until('nothing is left', async () => ((await left()) === undefined ? true : undefined));
    expect(await ends(computerId)).toEqual({ [late]: 'revoked' });
  });
});
