import { ComputerImages } from '../../src/features/computers/containers/computer-images.service.ts';
import { AllComputers } from '../../src/features/computers/containers/all-computers.service.ts';
import { ComputerContainersModule } from '../../src/features/computers/computer-containers.module.ts';
import { execEvents } from '../../src/features/exec/index.ts';
import { fileEvents } from '../../src/features/files/index.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import { ComputerFixture, computerFeatures } from '../support/computer-fixture.ts';
import { withDesktopPrograms } from '../support/desktop-programs.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { LocalRuntimeModule } from '../support/local-runtime-module.ts';
import { until } from '../support/until.ts';

let server: TestServer;
let bed: ComputerFixture;

withDesktopPrograms('computers on the local runtime', () => {
  describe('computers on the local runtime', () => {
    beforeAll(async () => {
      server = await startFeatureServer({
        ...computerFeatures,
        modules: [LocalRuntimeModule.forTest(), ...computerFeatures.modules, ComputerContainersModule],
        definitions: [...computerFeatures.definitions, ...Object.values(execEvents), ...Object.values(fileEvents)],
      });
      bed = await ComputerFixture.open(server, 'local');
    }, 60_000);
    afterAll(() => server?.close());

    const containers = async () => (await server.app.get(ContainerRuntime, { strict: false }).list()).containers;
    const memory = () => server.app.get(Database, { strict: false }).query('select * from computer_memory');

    it('are made, wake, sleep and are deleted, and their usage is the time for which they were awake', async () => {
      const made = await bed.ask('POST', '', { json: { end_user_id: 'ana' }, headers: { prefer: 'wait=60' } });
      expect([made.status, made.json.status, made.json.status_message]).toEqual([201, 'awake', null]);
      const computerId = made.json.computer_id as string;
      const picture = await bed.ask('GET', `/${computerId}/screenshot`);
      expect([picture.status, picture.headers.get('x-screen-width')]).toEqual([200, '1280']);
      expect(await memory()).toHaveLength(1);

      const asleep = await bed.ask('POST', `/${computerId}/sleep`);
      expect([asleep.status, asleep.json.status]).toEqual([200, 'asleep']);
      expect(await memory()).toHaveLength(0);
      expect((await containers()).map(({ state }) => state)).toEqual(['exited']);
      const first = Date.parse(asleep.json.slept_at) - Date.parse(made.json.awake_since);

      await bed.ask('PATCH', `/${computerId}`, { json: { size: 'medium', display: { width: 800, height: 600 } } });
      const awake = await bed.ask('POST', `/${computerId}/wake`);
      expect([awake.status, awake.json.status, awake.json.display]).toEqual([200, 'awake', { width: 800, height: 600 }]);
      expect((await bed.ask('GET', `/${computerId}/screenshot`)).headers.get('x-screen-width')).toBe('800');

      expect((await bed.ask('DELETE', `/${computerId}`)).status).toBe(204);
      expect(await containers()).toEqual([]);
      expect(await memory()).toHaveLength(0);
      const history = (await bed.ask('GET', `/${computerId}/history`)).json as { type: string; data: { requested_at?: string } }[];
      const deleted = history.find(({ type }) => type === 'ComputerDeletionRequested')?.data.requested_at ?? '';
      const second = Date.parse(deleted) - Date.parse(awake.json.awake_since);
      const usage = (await bed.ask('GET', '/usage?granularity=total')).json;
      expect(usage.totals).toMatchObject({ awake_seconds: Math.round((first + second) / 1_000), wakes: 2 });
      expect(history.map(({ type }) => type).filter((type) => !['ComputerActed', 'ComputerConfigured'].includes(type))).toEqual([
        'ComputerSeatTaken',
        'ComputerCreated',
        'ComputerImageResolved',
        'ComputerWoke',
        'ComputerSleepRequested',
        'ComputerSlept',
        'ComputerWakeRequested',
        'ComputerWoke',
        'ComputerDeletionRequested',
        'ComputerDeleted',
        'ComputerSeatReleased',
      ]);
    }, 120_000);

    it('keep their image while there are none', async () => {
      const { image } = await server.app.get(ComputerImages, { strict: false }).resolve(new AbortController().signal);
      const needed = await server.app.get(AllComputers, { strict: false }).neededImages([image, 'another']);
      expect([...needed]).toEqual([image]);
    });

    it('are one per end user, for any number of creations at the same time', async () => {
      const create = () => bed.ask('POST', '', { json: { end_user_id: 'crowd' } });
      const answers = await Promise.all(Array.from({ length: 100 }, create));
      expect(new Set(answers.map(({ json }) => json.computer_id)).size).toBe(1);
      const computerId = answers[0]!.json.computer_id as string;
      await until('it is awake', async () => ((await bed.ask('GET', `/${computerId}`)).json.status === 'awake' ? true : undefined));
      expect(await containers()).toHaveLength(1);
      expect((await bed.ask('DELETE', `/${computerId}`)).status).toBe(204);
    }, 120_000);
  });
});
