import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type HeldInput, leftOf, seenComputer } from '../support/killed-computer.ts';
import { killable, Kills } from '../support/kills.ts';
import { runOperation } from '../support/operation-tools.ts';
import { type AnyBody, StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

const NOTHING: HeldInput = { buttons: [], keys: [] };
/** The greatest difference between two clocks that record the same exit of a container, in ms. */
const CLOCKS_MS = 1_000;
/** The time for which a container has ended before the service is started again, in ms: more than a clock may be wrong. */
const AWAY_MS = 2_500;

/** The tests of a service that is killed, or restored, while it has computers. */
export function computerInterruptionsContract(runtime: 'docker' | 'local', environment: () => Promise<Record<string, string>>): void {
  let service: StartedService;
  let kills: Kills;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-backups-'));
    service = await StartedService.start({ ...(await killable()), runtime, environment: await environment() });
    kills = new Kills(service);
  });
  afterAll(async () => {
    await kills?.cancel();
    await service?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  const ask = (method: string, path: string, body?: unknown) =>
    service.call(method, `/api/v1/computers${path}`, body, { prefer: 'wait=60' });
  const history = async (id: string, type: string): Promise<AnyBody[]> => (await ask('GET', `/${id}/history?limit=200&type=${type}`)).body;

  /** Makes a computer that is awake. */
  async function awake(endUserId: string): Promise<AnyBody> {
    const { body } = await ask('POST', '', { end_user_id: endUserId });
    return body.status === 'awake' ? body : becomesAwake(body.computer_id);
  }

  const becomesAwake = (id: string): Promise<AnyBody> =>
    until('the computer is awake', async () => {
      const { body } = await ask('GET', `/${id}`);
      return body.status === 'awake' ? body : undefined;
    });

  const usageOf = async (id: string): Promise<AnyBody> => (await ask('GET', `/usage?granularity=total&computer_id=${id}`)).body.totals;

  describe(`a computer on ${runtime} whose service is killed in the middle of a batch`, () => {
    it('has no key and no button held down once the service is there again, though nobody asks for it', async () => {
      const { computer_id: id } = await awake('ana');
      const desktop = await seenComputer(runtime, id);
      expect(await desktop.heldInput()).toEqual(NOTHING);
      const actions = [
        { action: 'left_mouse_down', coordinate: [300, 300] },
        { action: 'hold_key', text: 'shift+z', duration: 60 },
      ];
      const cut = ask('POST', `/${id}/actions`, { actions }).catch(() => null);
      await until('a button and two keys are down', async () => {
        const { buttons, keys } = await desktop.heldInput();
        return buttons.length === 1 && keys.length === 2 ? true : undefined;
      });
      await kills.now(async () => {
        expect(await cut).toBeNull();
        // The X server releases keys when the connection closes, but not buttons.
        expect((await desktop.heldInput()).buttons).toEqual([1]);
      });
      await until('nothing is held down', async () => {
        const held = await desktop.heldInput();
        return held.buttons.length + held.keys.length === 0 ? true : undefined;
      });
      const [released] = await until('it is in the history', async () => {
        const found = await history(id, 'ComputerInputReleased');
        return found.length > 0 ? found : undefined;
      });
      expect(released.actor.kind).toBe('system');

      // The next start has nothing to release.
      await kills.now();
      const { body } = await ask('POST', `/${id}/actions`, { action: 'left_click', coordinate: [10, 10] });
      expect(body).toMatchObject({ ok: true, completed: 1 });
      expect(await history(id, 'ComputerInputReleased')).toHaveLength(1);
    });
  });

  describe(`the usage of a computer on ${runtime}`, () => {
    it('ends with its container, though the service was killed before and is started later', async () => {
      const { computer_id: id, awake_since: since } = await awake('ben');
      const desktop = await seenComputer(runtime, id);
      let endedAt = 0;
      await kills.now(async () => {
        await desktop.kill();
        endedAt = await desktop.ended();
        await until('the service was away for a while', () => (Date.now() > endedAt + AWAY_MS ? true : undefined));
      });
      const again = await until('the computer runs again', async () => {
        const { body } = await ask('GET', `/${id}`);
        return body.status === 'awake' && body.awake_since !== since ? body : undefined;
      });
      const [exited] = await history(id, 'ComputerExited');
      const recorded = Date.parse(exited.data.exited_at);
      expect(Math.abs(recorded - endedAt)).toBeLessThan(CLOCKS_MS);

      const asleep = (await ask('POST', `/${id}/sleep`)).body;
      const awakeMs = recorded - Date.parse(since) + Date.parse(asleep.slept_at) - Date.parse(again.awake_since);
      expect(await usageOf(id)).toMatchObject({ awake_seconds: Math.round(awakeMs / 1_000), wakes: 2 });
    });

    it('goes on over a kill of the service while it is awake, and ends when its container was stopped, though a kill came before the record', async () => {
      const { computer_id: id, awake_since: since } = await awake('cem');
      const desktop = await seenComputer(runtime, id);
      await kills.now();
      expect(await ask('GET', `/${id}`)).toMatchObject({ body: { status: 'awake', awake_since: since } });

      await kills.order({ saga: 'computers', key: `computer-${id}`, after: 1 });
      const asked = ask('POST', `/${id}/sleep`).catch(() => null);
      expect(await kills.dies(async () => false)).toBe(true);
      await asked;
      const endedAt = await desktop.ended();
      await until('the service was away for a while', () => (Date.now() > endedAt + AWAY_MS ? true : undefined));
      await service.start();
      const asleep = await until('it sleeps', async () => {
        const { body } = await ask('GET', `/${id}`);
        return body.status === 'asleep' ? body : undefined;
      });
      const sleptAt = Date.parse(asleep.slept_at);
      expect(Math.abs(sleptAt - endedAt)).toBeLessThan(CLOCKS_MS);
      expect(await usageOf(id)).toMatchObject({ awake_seconds: Math.round((sleptAt - Date.parse(since)) / 1_000), wakes: 1 });
    });
  });

  describe(`a computer on ${runtime}`, () => {
    it('is what an operator finds among the containers of the engine, by its own id', async () => {
      const { computer_id: id } = await awake('dan');
      const { email, password } = service.firstRun;
      const session = (await service.call('POST', '/api/auth/login', { email, password })).body.session_token;
      const { body } = await service.call('GET', '/api/admin/runtime', undefined, { authorization: `Bearer ${session}` });
      expect(body.containers.filter((each: AnyBody) => each.computer_id === id)).toEqual([
        {
          agent_id: null,
          computer_id: id,
          agent_status: null,
          computer_status: 'awake',
          generation: 1,
          wanted_generation: 1,
          deployment_id: null,
          state: 'running',
          verdict: 'as_wanted',
        },
      ]);
      expect(body).toMatchObject({ orphans: { containers: [], volumes: [] }, missing: [] });
    });

    it('that was deleted since a backup stays deleted when that is restored, and its end user gets another', async () => {
      const [{ computer_id: kept }, { computer_id: doomed }] = [await awake('eva'), await awake('fay')];
      const file = `/files?path=note.txt`;
      for (const id of [kept, doomed]) expect((await ask('PUT', `/${id}${file}`, { of: id })).status).toBe(201);
      const backup = join(folder, 'backup.tar.gz');
      await runOperation('backup', service.dataDir, backup);
      expect((await ask('DELETE', `/${doomed}`)).status).toBe(204);
      expect(await leftOf(runtime, service.dataDir, doomed)).toEqual([]);
      await service.stop();
      const said = await runOperation('restore', service.dataDir, backup, '--replace');
      expect(said).toContain(`Computer ${doomed} had been deleted since`);
      expect(said).not.toContain(kept);

      await service.start();
      await until('it is gone again', async () => ((await ask('GET', `/${doomed}`)).status === 404 ? true : undefined));
      await until('its deletion is over', async () => ((await history(doomed, 'ComputerDeleted')).length === 1 ? true : undefined));
      expect(await leftOf(runtime, service.dataDir, doomed)).toEqual([]);
      expect((await ask('GET', `/${kept}${file}`)).body).toEqual({ of: kept });
      const { computer_id: another } = await awake('fay');
      expect(another).not.toBe(doomed);
      expect((await ask('GET', `/${another}/files/list`)).body.entries.map(({ name }: AnyBody) => name)).not.toContain('note.txt');
    });
  });
}
