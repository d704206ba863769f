import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';

describe('a terminal in a container', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  it('ends, with all that runs in it, when the service is killed', async () => {
    const view = await bed.running();
    const script = `
      import { createSecretKey } from 'node:crypto';
      import { DockerRuntime } from ${JSON.stringify(new URL('../docker-runtime.ts', import.meta.url).href)};
      const runtime = new DockerRuntime({
        instance: '${bed.instance}', containerKey: createSecretKey('${bed.instance}', 'utf8'), helperImage: null, ociRuntime: null, egress: 'all',
      });
      const terminal = await runtime.terminal('${view.handle}', { cols: 80, rows: 24, signal: new AbortController().signal });
      terminal.stream.on('data', () => undefined);
      terminal.stream.write('setsid sleep 7001 & sleep 7002\\r');
    `;
    const loader = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
    const service = spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', script], { stdio: 'ignore' });
    const running = async () => (await bed.output(view, 'ps')).match(/sleep 700[12]$/gm)?.length ?? 0;
    await until('both run', async () => ((await running()) === 2 ? true : undefined));
    service.kill('SIGKILL');
    await once(service, 'exit');
    await until('nothing of it runs', async () => ((await running()) === 0 ? true : undefined));
  });
});
