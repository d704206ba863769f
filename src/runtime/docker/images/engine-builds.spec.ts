import type Dockerode from 'dockerode';

import type { BuildNetworks } from '../networks/build-networks.ts';
import { EngineBuilds } from './engine-builds.ts';

describe('the warning about builds by the engine’s own builder', () => {
  const told = (info: () => Promise<unknown>): Promise<string> => {
    const docker = { info } as unknown as Dockerode;
    return new EngineBuilds({ docker, instance: 'i', networks: {} as BuildNetworks, helperImage: async () => null }).weakness();
  };

  it('says that they are not isolated, and whether their processes are not limited', async () => {
    const bounded = await told(async () => ({ CgroupDriver: 'cgroupfs', CgroupVersion: '1', NCPU: 2 }));
    expect(bounded).toContain('not isolated from each other');
    expect(bounded).not.toContain('not bounded');
    for (const [CgroupDriver, CgroupVersion] of [
      ['systemd', '2'],
      ['systemd', '1'],
      ['cgroupfs', '2'],
      ['none', ''],
    ])
      expect(await told(async () => ({ CgroupDriver, CgroupVersion, NCPU: 2 }))).toMatch(/not isolated.*not bounded, because the engine/);
  });

  it('is the same while the engine is unavailable', async () => {
    const away = told(() => Promise.reject(Object.assign(new Error('no socket'), { code: 'ENOENT' })));
    expect(await away).toContain('not isolated from each other');
  });
});
